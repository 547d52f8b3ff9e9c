/* What the library says of itself. */

#include "kernel.h"

/* Tells the sources that this was built from, so that a library of other ones is not taken. */
KERNEL const char *sources(void)
{
    return SOURCES;
}
