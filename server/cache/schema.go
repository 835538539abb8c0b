package cache

import (
	"hash/crc32"
	"strings"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
)

// tables are all tables of the file. Whoever has one guards it.
type tables struct {
	groups    *table[fleet.GroupID, Group]
	instances *table[identity.ID, *Instance] // the pointed-to never change
	health    *table[identity.ID, Health]
	files     *details[fileRow]
	keys      *details[publicKey]
	operators *table[identity.ID, Operator]
	errors    *table[int64, ErrorRow]
	decisions *table[int64, explain.Decision]
	images    *table[string, Image]
	terms     *table[string, uint64]
}

func newTables() tables {
	return tables{
		groups: newGroupsTable(), instances: newInstancesTable(), health: newHealthTable(),
		files: newFilesTable(), keys: newKeysTable(), operators: newOperatorsTable(),
		errors: newErrorsTable(), decisions: newDecisionsTable(),
		images: newImagesTable(), terms: newTermsTable(),
	}
}

// all returns the tables in the order of the file.
func (t tables) all() []mirrored {
	return []mirrored{t.groups, t.instances, t.files, t.keys, t.operators, t.errors, t.decisions, t.images, t.terms, t.health}
}

// layout returns the statements that make an empty file, and a number that
// is another one for every other layout.
func layout() (statements []string, version int32) {
	for _, m := range newTables().all() {
		statements = append(statements, m.ddl()...)
	}
	return statements, int32(crc32.ChecksumIEEE([]byte(strings.Join(statements, ";"))))
}

func newGroupsTable() *table[fleet.GroupID, Group] {
	return newTableBy(compareGroups, schema{name: "groups", keys: 2, columns: []string{
		"tenant TEXT NOT NULL", "group_key TEXT NOT NULL", "template TEXT", "is_static INTEGER", "desired_size INTEGER",
		"instance_type TEXT", "subnet_pool TEXT", "drain_timeout_ms INTEGER",
		"runtime_config_hash TEXT NOT NULL", "infra_config_hash TEXT NOT NULL", "config_json TEXT", "etag TEXT",
		"deleted INTEGER", "held TEXT", "revision INTEGER",
	}}, func(k fleet.GroupID) []any { return []any{k.Tenant, k.Name} },
		func(k fleet.GroupID, g Group) []any {
			return []any{
				k.Tenant, k.Name, g.Template, g.Static, g.Size,
				g.InstanceType, g.SubnetPool, g.DrainTimeout.Milliseconds(),
				g.RuntimeHash, g.InfraHash, string(g.Config), g.ETag,
				g.Deleted, g.Blocked, int64(g.Revision),
			}
		})
}

func newInstancesTable() *table[identity.ID, *Instance] {
	return newTable(schema{
		name: "instances", keys: 1,
		indexes: []index{{"tenant", "tenant"}, {"tenant_group", "tenant, group_key"}, {"provider_id", "provider_id"}, {"state", "state"}},
		columns: []string{
			"id TEXT NOT NULL", "tenant TEXT NOT NULL", "group_key TEXT NOT NULL", "kind TEXT", "template TEXT", "on_demand INTEGER",
			"state TEXT", "power INTEGER", "verdict TEXT", "replacement_id TEXT",
			"condemned_reason TEXT", "condemned_at INTEGER", "drain_started_at INTEGER", "drain_acked INTEGER", "delete_at INTEGER",
			"instance_type TEXT", "arch TEXT", "subnet_pool TEXT", "subnet_id TEXT", "image_id TEXT",
			"infra_config_hash TEXT", "overrides_json TEXT",
			"provider TEXT", "provider_id TEXT", "provider_status TEXT", "provider_seen_at INTEGER",
			"hostname TEXT", "ipv4 TEXT", "ipv6 TEXT", "nonce_sha256 TEXT", "nonce_expires_at INTEGER",
			"public_key_pem TEXT", "cert_serial TEXT", "previous_serial TEXT", "cert_not_after INTEGER",
			"created_at INTEGER", "registered_at INTEGER", "unhealthy_at INTEGER", "deleted_at INTEGER",
			"machine INTEGER", "binding TEXT",
			"revision INTEGER",
		},
	}, bindID, func(_ identity.ID, in *Instance) []any {
		r := in.Removal
		return []any{
			in.ID.String(), in.Group.Tenant, in.Group.Name, in.Kind, in.Template, in.OnDemand,
			string(in.State), int64(in.Power), string(in.Verdict), in.Replacement.String(),
			string(r.Reason), ms(r.RequestedAt), ms(r.DrainStarted), r.Acked, ms(r.DeleteAt),
			in.InstanceType, in.Arch, in.SubnetPool, in.SubnetID, in.ImageID,
			in.InfraHash, string(in.Overrides),
			in.Provider, in.ProviderID, in.ProviderStatus, ms(in.ProviderSeenAt),
			in.Hostname, in.IPv4, in.IPv6, in.NonceSHA256, ms(in.NonceExpires),
			in.PublicKeyPEM, in.CertSerial, in.PrevSerial, ms(in.CertNotAfter),
			ms(in.Created), ms(in.RegisteredAt), ms(in.UnhealthyAt), ms(in.DeletedAt),
			in.Machine.On, in.Machine.Binding,
			int64(in.Revision),
		}
	})
}

func newHealthTable() *table[identity.ID, Health] {
	return newTable(schema{name: "health", keys: 1, columns: []string{
		"instance_id TEXT", "received_at INTEGER", "count INTEGER", "agent_version TEXT", "uptime TEXT",
		"config_hash TEXT", "metrics_json TEXT", "termination_action TEXT", "termination_deadline INTEGER",
		"first_notice_at INTEGER", "connected INTEGER",
	}}, bindID, func(id identity.ID, h Health) []any {
		return []any{
			id.String(), ms(h.ReceivedAt), h.Count, h.AgentVersion, h.Uptime,
			h.ConfigHash, string(h.Metrics), h.TerminationAction, ms(h.TerminationDeadline),
			ms(h.FirstNoticeAt), h.Connected,
		}
	})
}

func newFilesTable() *details[fileRow] {
	return newDetails(schema{name: "files", keys: 2, columns: []string{
		"instance_id TEXT", "filename TEXT", "last_modified INTEGER", "error TEXT", "sent_at INTEGER", "attempts INTEGER",
	}}, func(k fileKey, f fileRow) []any {
		return []any{k.instance.String(), k.name, ms(moment(f.lastModified)), f.err, ms(moment(f.sentAt)), f.attempts}
	})
}

func newKeysTable() *details[publicKey] {
	return newDetails(schema{name: "public_keys", keys: 2, columns: []string{
		"instance_id TEXT", "name TEXT", "public_key_pem TEXT", "received_at INTEGER",
	}}, func(k fileKey, p publicKey) []any {
		return []any{k.instance.String(), k.name, p.pem, ms(p.receivedAt)}
	})
}

func newOperatorsTable() *table[identity.ID, Operator] {
	return newTable(schema{name: "operators", keys: 1, columns: []string{
		"id TEXT", "tenant TEXT", "nonce_sha256 TEXT", "public_key_pem TEXT", "cert_serial TEXT", "previous_serial TEXT",
		"cert_not_after INTEGER", "registered_at INTEGER", "storage_etag TEXT",
	}}, bindID, func(id identity.ID, o Operator) []any {
		return []any{
			id.String(), o.Tenant, o.NonceSHA256, o.PublicKeyPEM, o.CertSerial, o.PrevSerial,
			ms(o.CertNotAfter), ms(o.RegisteredAt), o.ETag,
		}
	})
}

func newErrorsTable() *table[int64, ErrorRow] {
	return newTable(schema{name: "errors", keys: 1, columns: []string{
		"seq INTEGER", "tenant TEXT", "group_key TEXT", "instance_id TEXT", "error TEXT", "at INTEGER",
	}}, bindSeq, func(seq int64, e ErrorRow) []any {
		return []any{seq, e.Tenant, e.Group, e.Instance.String(), e.Error, ms(e.At)}
	})
}

func newDecisionsTable() *table[int64, explain.Decision] {
	return newTable(schema{name: "decisions", keys: 1, columns: []string{
		"seq INTEGER", "tenant TEXT", "group_key TEXT", "instance_id TEXT", "action TEXT", "reason TEXT", "count INTEGER",
		"at INTEGER", "held_by TEXT", "held_why TEXT", "not_before INTEGER",
	}}, bindSeq, func(seq int64, d explain.Decision) []any {
		return []any{
			seq, d.Group.Tenant, d.Group.Name, d.Instance.String(), d.Action, d.Reason, d.Count,
			ms(d.At), string(d.BlockedBy), d.BlockedWhy, ms(d.NotBefore),
		}
	})
}

func bindID(id identity.ID) []any { return []any{id.String()} }
func bindSeq(seq int64) []any     { return []any{seq} }
func bindText(s string) []any     { return []any{s} }

// ms is how a time stands in the file: NULL for the zero value.
func ms(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// millis is a time as a row in memory keeps it that is one of many; 0 is the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// moment is the time that millis stands for.
func moment(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}
