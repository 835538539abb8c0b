package document

// Limits of what groups may be.
const (
	MaxGroupSize    = 10_000
	MaxTenantGroups = 5_000 // that the group file has for one tenant

	// MaxNameLength is how long the names are that go into tags and log lines, in bytes.
	MaxNameLength = 256
)
