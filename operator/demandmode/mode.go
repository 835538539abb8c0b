package demandmode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/keepalive"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/config"
	"nstance.dev/operator/controllers/demand/readback"
	"nstance.dev/operator/controllers/demand/rollup"
	"nstance.dev/operator/controllers/demand/session"
	"nstance.dev/operator/demand/aggregate"
	"nstance.dev/operator/demand/split"
	"nstance.dev/operator/demand/tally"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/operator/informers"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/metrics"
	"nstance.dev/operator/shards"
	"nstance.dev/protos/needs"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// Parts are what a [Mode] is put together from; all are required unless said.
type Parts struct {
	Settings config.Demand
	Config   func() config.Config // the configuration that is in force
	// Connections returns the connections to the shards, of which there are some by then.
	Connections func() *shards.Set
	Inventory   *inventory.Store
	// Objects is the cache of the cluster that the Pods are in, Writer a client of it without a
	// cache and with limits of its own.
	Objects     cache.Cache
	Writer      client.Client
	Translation func() translate.Options
	Metrics     *metrics.Demand
	// Warn publishes an event about the operator as a whole.
	Warn func(ctx context.Context, reason, action, format string, args ...any)
	Log  *slog.Logger

	// Bootstrap and Reclaim are those of [session.Handlers]. Nil: machines get no data to join
	// with, and Nodes are never given back.
	Bootstrap func(ctx context.Context, shard string, r *demandpb.BootstrapRequest) *demandpb.BootstrapBlobResponse
	Reclaim   func(ctx context.Context, shard string, r *demandpb.ReclaimInstruction) *demandpb.ReclaimAck
	// Resynced hears that a shard has to be told of all Nodes of its machines; nil: nobody does.
	// It must not wait.
	Resynced func(shard string)
	// RolledUp hears that a shard was sent what the cluster needs; nil: nobody does. It must not
	// wait.
	RolledUp func(shard string)
}

// Mode is the operator's half of demand mode. New makes one.
type Mode struct {
	parts    Parts
	sessions *session.Sessions
	rollups  *rollup.Controller
	objects  *readback.Writer
}

// New returns a mode that does nothing before it runs.
func New(p Parts) *Mode {
	m := &Mode{parts: p}
	m.objects = readback.New(readback.Options{Client: p.Writer, Shards: func() []string { return p.Config().Names() }, Wrote: p.Metrics.Wrote, Log: p.Log})
	m.rollups = rollup.New(m.rollupOptions())
	m.sessions = session.New(m.sessionOptions())
	return m
}

func (m *Mode) rollupOptions() rollup.Options {
	p, s := m.parts, m.parts.Settings.Rollups
	return rollup.Options{
		Tally: tally.Options{
			Source: tally.Source(p.Settings.PodSource), UnitClasses: aggregate.UnitClasses(s.UnitClasses), CountForeign: s.CountForeign, Surcharge: s.Surcharge,
		},
		Overheads: s.Overhead == config.OverheadAuto, Interval: s.Interval, Least: s.MinInterval, Acknowledgements: s.Acknowledgements,
		Translation: p.Translation, Cache: p.Objects, Writer: p.Writer,
		Shards: func() []split.Shard { return directory(p.Config()) }, Machines: m.machines, Known: m.known,
		Send: func(shard string, rows []*needs.Row, overheads []needs.Overhead) bool {
			return m.sessions.Rollup(shard, session.Rollup{Rows: rows, Overheads: overheads})
		},
		Asked: m.objects.Asked,
		Observer: rollup.Observer{
			Built: func(list, build, enqueue time.Duration, _, skipped int) {
				p.Metrics.Built(list, build, enqueue, skipped)
			},
			Mismatch: p.Metrics.Mismatch, Acknowledged: p.Metrics.Acknowledged,
		},
		Log: p.Log,
	}
}

func (m *Mode) sessionOptions() session.Options {
	p, s := m.parts, m.parts.Settings.Sessions
	present := p.Config()
	return session.Options{
		Cluster: present.ClusterID, Tenant: present.Tenant, Backoff: session.Backoff{Initial: s.InitialBackoff, Max: s.MaxBackoff},
		Keepalive: keepalive.ClientParameters{Time: s.KeepaliveInterval, Timeout: s.KeepaliveTimeout, PermitWithoutStream: true},
		Outbox:    s.Outbox, MaxMessage: s.MaxMessage, Grace: s.DrainGrace, Dispatch: s.Dispatch, Log: p.Log,
		Handlers: session.Handlers{
			Bootstrap: p.Bootstrap, Reclaim: p.Reclaim, Resynced: p.Resynced,
			NodeState: m.objects.NodeState, SnapshotComplete: m.objects.SnapshotComplete,
			Capacity: func(ctx context.Context, shard string, u *demandpb.AvailableCapacityUpdate) error {
				m.rollups.Capacity(shard, u)
				return m.objects.Capacity(ctx, shard, u)
			},
			Opened: m.rollups.Opened,
			Closed: func(shard string) {
				m.rollups.Closed(shard)
				m.objects.ShardsChanged()
			},
			Rollup: func(shard string, a session.Answer) { m.rollups.Answered(shard, a.Held) },
		},
		Observer: m.observer(),
	}
}

func (m *Mode) observer() session.Observer {
	counts := m.parts.Metrics
	return session.Observer{
		Begins:    counts.ShardAdded,
		Reconnect: counts.Reconnect,
		Refused: func(ctx context.Context, shard string, why error) {
			m.parts.Warn(ctx, "DemandSessionRefused", "Connect", "shard %s refuses the demand session: %v", shard, why)
		},
		Dropped: func(_, kind string) { counts.Dropped(kind) },
		RollupSent: func(shard string, bytes, rows int, reference bool) {
			counts.RollupSent(shard, bytes, rows, reference)
			if m.parts.RolledUp != nil {
				m.parts.RolledUp(shard)
			}
		},
		Handled: func(_, kind, state string, took time.Duration, _ error) {
			if kind == session.KindState {
				counts.State(state, took)
			}
		},
		Inflight: counts.Inflight,
		Removed:  counts.ShardRemoved,
	}
}

// Report sends reports of Nodes to a shard. False: some could not be sent, and what is still so
// has to be reported again.
func (m *Mode) Report(shard string, reports []*demandpb.NodeReport) bool {
	return m.sessions.Report(shard, reports)
}

// TranslationChanged hears that Pods are translated in another way.
func (m *Mode) TranslationChanged() { m.rollups.TranslationChanged() }

// Run runs everything until ctx ends; then it returns nil.
func (m *Mode) Run(ctx context.Context) error {
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return m.objects.Run(ctx) })
	parts.Go(func() error { return m.sessions.Run(ctx, m.parts.Connections()) })
	parts.Go(func() error {
		if err := m.watch(ctx); err != nil {
			return err
		}
		return m.rollups.Run(ctx)
	})
	if err := parts.Wait(); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("demand mode: %w", err)
	}
	return nil
}

// watch has everybody hear of the objects of the cluster, and returns once roll-ups may be made.
func (m *Mode) watch(ctx context.Context) error {
	objects := m.parts.Objects
	if _, err := informers.Hear(ctx, objects, &demandv1.UpcomingNode{}, m.objects.UpcomingNode); err != nil {
		return err
	}
	return m.rollups.Watch(ctx, objects)
}
