// Package effective lays the group file over the configuration: what each group of each tenant
// should be, after all layers were merged.
//
// A [Config] is a document with the rules of its provider. [Groups] gives all groups and
// [Config.Group] one; [Config.Definition] what the files of a machine come from, even where its
// template is gone. [Config.MayUseTemplate] and its siblings say what belongs to which tenant:
// what a tenant may not use does not exist for it (S12). [Rebuild] makes a group file in the
// place of one that was lost.
//
// The hashes of a group are pinned by golden files: an upgrade that changed one by accident
// would replace every machine.
package effective
