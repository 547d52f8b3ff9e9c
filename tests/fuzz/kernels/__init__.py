"""The kernels under a fuzzer: libFuzzer where clang is there, a small one of our own elsewhere; always sanitized."""
