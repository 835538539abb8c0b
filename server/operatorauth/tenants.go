package operatorauth

import (
	"context"
	"fmt"
	"strings"

	"nstance.dev/server/config/document"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
)

// knowTenant refuses a tenant that no shard of the cluster has. Each shard has tenants
// of its own, and the cluster's leader may be a server of any: what its own
// configuration lacks, those of the other shards in the bucket may have. Whether a
// shard admits the operator is then that shard's own answer.
func (r *Registry) knowTenant(ctx context.Context, tenant string) error {
	if r.opts.HasTenant(tenant) {
		return nil
	}
	var unread error
	for info, err := range objectstore.ListAll(ctx, r.opts.Store, layout.ConfigPrefix) {
		if err != nil {
			return fmt.Errorf("%w: list configurations: %w", ErrUnavailable, err)
		}
		if !strings.HasSuffix(info.Key, ".jsonc") {
			continue
		}
		obj, err := r.opts.Store.Get(ctx, info.Key)
		if err != nil {
			unread = fmt.Errorf("%s: %w", info.Key, err)
			continue
		}
		switch tenants, err := document.TenantsIn(info.Key, obj.Data); {
		case err != nil:
			unread = err
		case tenants[tenant]:
			return nil
		}
	}
	if unread != nil {
		return fmt.Errorf("%w: tenant %q may be one of a shard whose configuration cannot be read: %w", ErrUnavailable, tenant, unread)
	}
	return fmt.Errorf("%w: tenant %q is in the configuration of no shard", ErrRefused, tenant)
}
