"""The kernels under a fuzzer: libFuzzer if clang has it, else a small one of our own; always with sanitizers."""
