package config

import "nstance.dev/server/config/jsonc"

// Problem is one thing that is wrong with a document: where, what, and what
// would be right.
type Problem = jsonc.Problem

// Problems are all that is wrong with a document, in order of place. As an
// error it prints one line for each.
type Problems = jsonc.Problems
