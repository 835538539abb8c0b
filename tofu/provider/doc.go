// Package provider is the OpenTofu and Terraform provider of Nstance: groups and on-demand
// instances as resources, and what a shard has as data sources.
//
// It is a client of the operators' API like nstance-admin, with the same contexts, identities and
// connections, and decides nothing: whether a group may look like this, the server says, in a plan
// already (CheckGroup). A resource owns what its configuration sets. What is left out belongs to
// whoever sets it.
//
// The attributes of groups are those of the API's messages, and are made from their descriptors;
// so are their descriptions (descriptions.go, which TestDescriptions writes with -update).
package provider
