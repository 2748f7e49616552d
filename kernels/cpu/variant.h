// The name of the instruction set that a source is compiled for. KernelTable are compiled once for
// each set. Everything they are made of lies in a namespace of this name, so that the linker never
// uses a function of a larger set for a smaller one.
#pragma once

#ifndef PTDP_CPU_VARIANT
#define PTDP_CPU_VARIANT baseline
#endif
