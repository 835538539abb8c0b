// Package nodes says which Node is which instance's.
//
// A provider id is the one link that everybody trusts: the URI that a shard reports for
// an instance is to be Node.spec.providerID, byte for byte. Where a Node has none yet, or
// writes it in another form, [Match] looks at what else there is. What a Node says of
// itself, its kubelet wrote; so a label or a name counts only if the Node also has an
// address that the server knows for the instance. Otherwise a machine could draw a drain
// upon another one's Node.
//
// Where more than one Node fits equally well, none does.
//
// The package reads nothing and changes nothing. An [Index] is made of the Nodes once and
// may then be used concurrently; everything else is a function of its arguments.
package nodes
