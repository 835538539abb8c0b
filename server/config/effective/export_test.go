package effective

// What tests look at.
var (
	Canonical    = canonical
	MergeObjects = mergeObjects
)

// InfraText is what the infra hash of a group is made of.
func InfraText(g *Group) []byte {
	return canonical(infraInput{
		Args: g.Args, InstanceType: g.InstanceTypes, SubnetPool: g.SubnetPool,
		Userdata: hashUserdata(g.Userdata), Kind: g.Kind, Arch: g.Arch,
	})
}
