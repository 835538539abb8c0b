package layout

import (
	"errors"
	"fmt"
	"strings"
)

// FilesPrefix is where objects stand that are delivered to machines as files.
const FilesPrefix = "files/"

// secretsPrefix is where a cluster keeps its keys and secrets in the bucket unless it is
// told another place.
const secretsPrefix = "secret/"

// reserved is what the keys of the servers' own documents begin with, some of which later
// versions write. No machine is ever sent one as a file, whatever a configuration says.
var reserved = []string{
	"certlog/", "config/", "decision/", "groups/", HostLogs, "instance/", "leader/", "machine/", "operation/",
	OperatorPrefix, "operator-nonce/", secretsPrefix, "snapshot/", "tenant/",
}

// ErrReserved is matched by the errors about keys that belong to the servers.
var ErrReserved = errors.New("belongs to the servers")

// FileSources says which objects of the bucket a file may come from. The zero value is
// those under [FilesPrefix].
type FileSources struct {
	Anywhere bool // beyond FilesPrefix, but for what belongs to the servers
	// Secrets is what the keys of the cluster's secrets begin with, where they are in the
	// bucket and in another place than the usual one.
	Secrets string
}

// Check reports why no file may come from the object with the given key, which may be the
// beginning of one. Errors about keys of the servers match [ErrReserved].
func (s FileSources) Check(key string) error {
	for _, prefix := range append([]string{s.Secrets}, reserved...) {
		if prefix != "" && strings.HasPrefix(key, prefix) {
			return fmt.Errorf("what is under %q %w", prefix, ErrReserved)
		}
	}
	switch {
	case key == "" || strings.HasPrefix(key, "/") || strings.Contains(key, "..") || strings.Contains(key, "//"):
		return fmt.Errorf("%q is not a key of an object", key)
	case !s.Anywhere && !strings.HasPrefix(key, FilesPrefix):
		return fmt.Errorf("%q is not under %q", key, FilesPrefix)
	}
	return nil
}

// CheckSecretsPrefix reports why the keys of a cluster's secrets may not begin with prefix:
// where other documents or files stand, one could pass for the other. Under the usual
// prefix there is room for any.
func CheckSecretsPrefix(prefix string) error {
	if strings.HasPrefix(prefix, secretsPrefix) {
		return nil
	}
	for _, taken := range append([]string{FilesPrefix, CACertKey}, reserved...) {
		if strings.HasPrefix(prefix, taken) || strings.HasPrefix(taken, prefix) {
			return fmt.Errorf("%q overlaps with %q, where other objects are", prefix, taken)
		}
	}
	return nil
}
