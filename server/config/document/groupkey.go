package document

// GroupKey names a group of a shard.
type GroupKey struct {
	Tenant, Group string
}

// String gives tenant/group.
func (k GroupKey) String() string { return k.Tenant + "/" + k.Group }
