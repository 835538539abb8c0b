// Package deploy tests what stands in deploy/: the reference user data, the units of the
// service manager and the modules that set a shard up. It needs no account of any cloud.
package deploy
