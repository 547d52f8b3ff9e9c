// What a page needs before all else: the means to unpack its scripts.

import { inflateText } from "./unpack";

Object.assign(globalThis, { unpacked: inflateText });
