// Package packages tests what make release packs, in a Debian with systemd as PID 1: an
// installation, a start, the upgrade from the release before, a leader that is killed, a removal and
// a purge. An RPM is only installed and not started: there is no such system here.
//
//	make test-packages
package packages
