// Package configsource is where a shard's configuration comes from, and how another
// version of it comes into force.
//
// A [Source] reads the stored configuration, checks it, and keeps a copy of the last
// good one in the cache directory, for when storage is away or holds one that is
// invalid or not applicable (S19, S26). A [Reloader] puts a new version in force: at
// once, or by a restart of the server where a part has changed that is read at a start
// alone.
//
// What a configuration says is the business of package config; what follows from it
// that of whoever it is put in force in.
//
// Everything is safe for concurrent use.
//
// Lock order: the Reloader's, which is held for the whole of a reload, so that neither the
// Target nor the functions of [ReloaderOptions] may reload; then those of the Source, under
// which nothing is called and of which nobody takes two.
package configsource
