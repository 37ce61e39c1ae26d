package FarStacks;

# For memcheck, which takes a jump of the stack pointer by less than 2 MB for a call or a return: Coro's stacks are farther
# apart.

use 5.016;
use strict;
use warnings;

use Coro::State ();

# Elements of 8 bytes.
Coro::State::cctx_stacksize( 1 << 20 );

1;
