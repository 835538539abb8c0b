// Package console opens the web console in a real Chromium, with a real shard behind it: `dev` with
// machines on this box, and `nstance-admin console` as a user starts it.
//
// Its tests have the build tag `console`. Those whose name begins with TestConsole are quick and
// run with `make e2e` too; `make e2e-console` runs all.
package console
