package clusterops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nstance.dev/server/config"
	"nstance.dev/server/config/document"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

// ErrClusterKey refuses to show or change a key of the cluster itself as a secret.
// [Cluster.Init] and the rotations look after those.
var ErrClusterKey = errors.New("is a key of the cluster itself")

// StoredSecret is a secret in the store, without its value.
type StoredSecret struct {
	Name string `json:"name"`
	// ClusterKey: one of the cluster's own keys, which is neither shown nor changed here.
	ClusterKey bool `json:"cluster_key"`
	// UsedBy are the files of templates, as SHARD/TEMPLATE/FILE, that are made from it.
	UsedBy []string `json:"used_by"`
}

// SecretChange is what [Cluster.PutSecret] or [Cluster.DeleteSecret] did, or would do.
type SecretChange struct {
	Name   string   `json:"name"`
	Action string   `json:"action"` // created, replaced, unchanged, deleted or absent
	Size   int      `json:"size"`   // of the new value, in bytes; 0 when deleted
	UsedBy []string `json:"used_by"`
	DryRun bool     `json:"dry_run"`
}

// Actions of a [SecretChange].
const (
	SecretCreated   = "created"
	SecretReplaced  = "replaced"
	SecretUnchanged = "unchanged"
	SecretDeleted   = "deleted"
	SecretAbsent    = "absent"
)

// PutOptions are how a secret is stored; the zero value replaces what is there.
type PutOptions struct {
	CreateOnly bool // a secret of that name is an error that matches [secrets.ErrExists]
	DryRun     bool // look, and store nothing
}

// PutSecret stores a secret for files of kind secret. A value that is there already is
// not written again. Machines get the new one within an hour.
func (c *Cluster) PutSecret(ctx context.Context, name string, value secrets.Secret, opts PutOptions) (SecretChange, error) {
	change := SecretChange{Name: name, Action: SecretCreated, Size: len(value), DryRun: opts.DryRun}
	if err := checkSecret(name); err != nil {
		return change, err
	}
	old, err := c.secrets.Get(ctx, name)
	switch {
	case err == nil && opts.CreateOnly, errors.Is(err, secrets.ErrUnreadable) && opts.CreateOnly:
		return change, fmt.Errorf("put secret %s: %w", name, secrets.ErrExists)
	case err == nil && bytes.Equal(old, value):
		change.Action = SecretUnchanged
	case err == nil, errors.Is(err, secrets.ErrUnreadable):
		change.Action = SecretReplaced
	case !errors.Is(err, secrets.ErrNotFound):
		return change, err
	}
	if change.UsedBy, err = c.usersOf(ctx, name); err != nil {
		return change, err
	}
	if opts.DryRun || change.Action == SecretUnchanged {
		return change, nil
	}
	mode := secrets.Overwrite
	if opts.CreateOnly {
		mode = secrets.CreateOnly
	}
	return change, c.secrets.Put(ctx, name, value, mode)
}

// GetSecret returns a secret's value. The error matches [secrets.ErrNotFound] where there
// is none.
func (c *Cluster) GetSecret(ctx context.Context, name string) (secrets.Secret, error) {
	if err := checkSecret(name); err != nil {
		return nil, err
	}
	return c.secrets.Get(ctx, name)
}

// ListSecrets returns the secrets whose names begin with prefix, by name.
func (c *Cluster) ListSecrets(ctx context.Context, prefix string) ([]StoredSecret, error) {
	names, err := c.secrets.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	users, err := c.secretUsers(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]StoredSecret, len(names))
	for i, name := range names {
		list[i] = StoredSecret{Name: name, ClusterKey: isClusterKey(name), UsedBy: orNone(users[name])}
	}
	return list, nil
}

// ErrSecretUsed refuses to delete a secret that files are made from.
var ErrSecretUsed = errors.New("is used")

// DeleteSecret removes a secret; one that is not there is no error. One that a stored
// configuration makes files from goes only with force: machines that need it can't be
// supplied any more.
func (c *Cluster) DeleteSecret(ctx context.Context, name string, force, dryRun bool) (SecretChange, error) {
	change := SecretChange{Name: name, Action: SecretDeleted, DryRun: dryRun}
	if err := checkSecret(name); err != nil {
		return change, err
	}
	if _, err := c.secrets.Get(ctx, name); errors.Is(err, secrets.ErrNotFound) {
		change.Action, change.UsedBy = SecretAbsent, []string{}
		return change, nil
	} else if err != nil && !errors.Is(err, secrets.ErrUnreadable) {
		return change, err
	}
	var err error
	if change.UsedBy, err = c.usersOf(ctx, name); err != nil {
		return change, err
	}
	if len(change.UsedBy) > 0 && !force {
		return change, fmt.Errorf("delete secret %s: it %w by %s", name, ErrSecretUsed, strings.Join(change.UsedBy, ", "))
	}
	if dryRun {
		return change, nil
	}
	return change, c.secrets.Delete(ctx, name)
}

func checkSecret(name string) error {
	if isClusterKey(name) {
		return fmt.Errorf("secret %s %w", name, ErrClusterKey)
	}
	return secrets.ValidateName(name)
}

func isClusterKey(name string) bool {
	return name == pki.CAKeySecret || name == pki.NonceKeySecret
}

func (c *Cluster) usersOf(ctx context.Context, name string) ([]string, error) {
	users, err := c.secretUsers(ctx)
	return orNone(users[name]), err
}

// secretUsers gives the files, as SHARD/TEMPLATE/FILE, that the stored configurations make
// from each secret. What cannot be read of a configuration, servers do not use either.
func (c *Cluster) secretUsers(ctx context.Context) (map[string][]string, error) {
	users := map[string][]string{}
	for info, err := range objectstore.ListAll(ctx, c.objects, configPrefix) {
		if err != nil {
			return nil, fmt.Errorf("list configurations: %w", err)
		}
		shard, ok := strings.CutSuffix(strings.TrimPrefix(info.Key, configPrefix), ".jsonc")
		if !ok {
			continue
		}
		object, err := c.objects.Get(ctx, info.Key)
		if errors.Is(err, objectstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", info.Key, err)
		}
		cfg, err := config.Load(info.Key, object.Data, config.LoadOptions{})
		if err != nil {
			continue
		}
		for _, template := range slices.Sorted(maps.Keys(cfg.Templates)) {
			files := cfg.Templates[template].Files
			for _, file := range slices.Sorted(maps.Keys(files)) {
				if f := files[file]; f.Kind == document.FileSecret {
					users[f.Source] = append(users[f.Source], shard+"/"+template+"/"+file)
				}
			}
		}
	}
	return users, nil
}

func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
