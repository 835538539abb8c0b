// Package components makes of the operator's chart what clusterctl installs: the folder of
// one version in a provider's repository, with infrastructure-components.yaml and
// metadata.yaml.
//
// The chart stays the only source. It is rendered as the release nstance-operator in the
// namespace nstance; what only Helm understands is taken off; the namespace is put in
// front, and the provider's label on every object, for clusterctl upgrades and deletes by
// it. A few values are left open ([Variables]): clusterctl fills them in where it
// installs.
//
// Other namespaces do not work, because clusterctl changes the namespace of objects and
// not the texts in which it stands; and it deletes only those objects of the whole cluster
// whose names begin with the namespace, which these do.
package components
