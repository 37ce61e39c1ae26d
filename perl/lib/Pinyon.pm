package Pinyon;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.001000';

require XSLoader;
XSLoader::load( 'Pinyon', $VERSION );

require Pinyon::Error;
require Pinyon::Values;
require Pinyon::Cache;
require Pinyon::Locks;

1;
