package document

import (
	"nstance.dev/server/layout"
)

// ClusterSecrets are the names of the cluster's own keys: no file may carry one away.
var ClusterSecrets = []string{"ca.key", "registration-nonce.key"}

// MaxFiles is how many files a template may have: as many as an agent puts in place
// together.
const MaxFiles = 512

// FileSources says which objects of the bucket files may come from.
func (c *Config) FileSources() layout.FileSources {
	sources := layout.FileSources{Anywhere: c.Server.AllowAnyStorageSource}
	if c.Server.Secrets.Provider == SecretsObjectStorage {
		sources.Secrets = c.Server.Secrets.Prefix
	}
	return sources
}
