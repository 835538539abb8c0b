package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newEventsCommand(env *Env) *cobra.Command {
	var format output.Format
	opts := eventOptions{}
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Follow everything that happens: groups, instances and errors",
		Long: `Follow changes of groups, the lives of instances and errors in one stream, one line
each, until interrupted. It begins with all groups as they are and the instances
that are to be deleted. In JSON each line is an object {"time","kind","event"},
where event is the message of the API.

--since begins with what was decided in that time, as far as the servers keep it: the
last 100 decisions of a group. What is decided while the stream opens is printed once it is
open. --for shows one group or instance alone. With
--follow=false the command ends after that.`,
		Example: `  nstance-admin events
  nstance-admin events --since 1h --for group/web
  nstance-admin events --since 24h --for instance/knc068a3cp3thz5z2mv1gejwftabc --follow=false
  nstance-admin events --all-shards -o json | jq 'select(.kind == "error")'`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := addShardFlags(env, cmd)
	addOutputFlag(cmd, &format, output.Table, output.Wide, output.JSON)
	cmd.Flags().DurationVar(&opts.since, "since", 0, "begin with the decisions of this time")
	cmd.Flags().StringVar(&opts.subject, "for", "", "only what is about `group/GROUP or instance/INSTANCE`")
	cmd.Flags().BoolVar(&opts.follow, "follow", true, "go on with what happens, until interrupted")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := opts.parse(); err != nil {
			return err
		}
		printer := &eventPrinter{env: env, json: format.Shape() == output.JSON, opts: opts, begin: env.Now().Add(-opts.since), printed: map[string]bool{}}
		if opts.since > 0 {
			if err := onEachShard(cmd.Context(), env, flags, printer.past); err != nil {
				return err
			}
			if !printer.known && opts.subject != "" {
				return fmt.Errorf("%s: none of the shards has it", opts.subject)
			}
		}
		if !opts.follow {
			return nil
		}
		return watchShards(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
			return printer.follow(ctx, s, flags.timeout)
		})
	}
	return cmd
}

// eventOptions say which events are shown.
type eventOptions struct {
	since           time.Duration
	subject         string
	follow          bool
	group, instance string // of the subject; both empty: all
}

func (o *eventOptions) parse() error {
	kind, name, _ := strings.Cut(o.subject, "/")
	switch {
	case o.since < 0:
		return usagef("--since %v is negative", o.since)
	case !o.follow && o.since == 0:
		return usagef("--follow=false needs --since: there is nothing to show otherwise")
	case o.subject == "":
	case kind == "group" && name != "":
		o.group = name
	case kind == "instance" && name != "":
		o.instance = name
	default:
		return usagef("--for %q must be group/GROUP or instance/INSTANCE", o.subject)
	}
	return nil
}

// shows reports whether an event about a group and, if not empty, an instance of it is
// shown.
func (o *eventOptions) shows(group, instance string) bool {
	return (o.group == "" || o.group == group) && (o.instance == "" || o.instance == instance)
}

// past prints the decisions of a shard that are young enough, the oldest first, but none twice.
func (p *eventPrinter) past(ctx context.Context, s *shard) error {
	explanations, err := p.explanations(ctx, s)
	if err != nil {
		return err
	}
	type row struct {
		group    string
		decision *nstancev1.Decision
	}
	var rows []row
	for _, why := range explanations {
		for _, d := range why.GetDecisions() {
			if !d.GetTime().AsTime().Before(p.begin) && p.opts.shows(why.GetGroup().GetKey(), d.GetInstanceId()) {
				rows = append(rows, row{why.GetGroup().GetKey(), d})
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return a.decision.GetTime().AsTime().Compare(b.decision.GetTime().AsTime()) })
	for _, r := range rows {
		if !p.first(s, r.group, r.decision) {
			continue
		}
		line := r.group + "  " + decided(r.decision)
		if r.decision.GetHeldBy() != "" {
			line += "; blocked by " + r.decision.GetHeldBy()
		}
		if err := p.print(s, "decision", r.decision.GetTime().AsTime(), r.decision, line); err != nil {
			return err
		}
	}
	return nil
}

// first reports whether a decision was not printed before.
func (p *eventPrinter) first(s *shard, group string, d *nstancev1.Decision) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := strings.Join([]string{s.label, group, d.GetTime().AsTime().String(), d.GetInstanceId(), d.GetAction(), d.GetReason(), d.GetHeldBy()}, "\x00")
	was := p.printed[key]
	p.printed[key] = true
	return !was
}

// explanations are those of the subject, or of all groups.
func (p *eventPrinter) explanations(ctx context.Context, s *shard) ([]*nstancev1.ExplainResponse, error) {
	var targets []*nstancev1.ExplainRequest
	switch {
	case p.opts.instance != "":
		targets = append(targets, &nstancev1.ExplainRequest{Target: &nstancev1.ExplainRequest_InstanceId{InstanceId: p.opts.instance}})
	case p.opts.group != "":
		targets = append(targets, &nstancev1.ExplainRequest{Target: &nstancev1.ExplainRequest_Group{Group: p.opts.group}})
	default:
		groups, err := listGroups(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, g := range groups {
			targets = append(targets, &nstancev1.ExplainRequest{Target: &nstancev1.ExplainRequest_Group{Group: g.Message.GetKey()}})
		}
	}
	var all []*nstancev1.ExplainResponse
	for _, target := range targets {
		why, err := s.api.Explain(ctx, target)
		switch {
		case status.Code(err) == codes.NotFound && (p.opts.subject == "" || s.label != ""):
			continue // it went meanwhile, or is on another of the shards
		case err != nil:
			return nil, err
		}
		p.mu.Lock()
		p.known = true
		p.mu.Unlock()
		all = append(all, why)
	}
	return all, nil
}

// eventPrinter prints events of different kinds as they come. It is safe for
// concurrent use.
type eventPrinter struct {
	env   *Env
	json  bool
	opts  eventOptions
	begin time.Time // of the decisions that are printed

	mu      sync.Mutex
	known   bool            // a shard has the subject
	printed map[string]bool // decisions
}

// follow prints the three streams of one shard. What was decided after [eventPrinter.past] and before the stream of
// instances was open, no stream tells: the decisions are listed again.
func (p *eventPrinter) follow(ctx context.Context, s *shard, timeout time.Duration) error {
	group, ctx := errgroup.WithContext(ctx)
	var listed sync.Once
	relist := func() {
		if p.opts.since > 0 {
			group.Go(func() error {
				if err := onShard(ctx, timeout, s, p.past); err != nil && ctx.Err() == nil {
					fmt.Fprintf(p.env.Err, "%swhat was decided while the stream opened is not known (%s)\n", s.prefix(), text(err))
				}
				return nil
			})
		}
	}
	group.Go(func() error {
		return watchGroups(ctx, p.env, s, func(e *nstancev1.GroupEvent) error {
			if p.opts.instance != "" || !p.opts.shows(e.GetGroup().GetKey(), "") {
				return nil
			}
			return p.print(s, "group", p.env.Now(), e, groupLine(e))
		})
	})
	group.Go(func() error {
		return follow(ctx, p.env, s, openInstanceEvents(s), func(e *nstancev1.InstanceEvent) error {
			if e.GetStatus() == eventSnapshotEnd {
				listed.Do(relist)
			}
			if e.GetInstanceId() == "" || !p.opts.shows(e.GetGroup(), e.GetInstanceId()) { // a sign of the stream itself, or of another
				return nil
			}
			return p.print(s, "instance", p.env.Now(), e, instanceLine(e))
		})
	})
	group.Go(func() error {
		open := func(ctx context.Context) (receiver[nstancev1.ErrorEvent], error) {
			return s.api.WatchErrors(ctx, &emptypb.Empty{})
		}
		return follow(ctx, p.env, s, open, func(e *nstancev1.ErrorEvent) error {
			if !p.opts.shows(e.GetGroup(), e.GetInstanceId()) {
				return nil
			}
			return p.print(s, "error", e.GetTimestamp().AsTime(), e, errorLine(e))
		})
	})
	return group.Wait()
}

func (p *eventPrinter) print(s *shard, kind string, at time.Time, event proto.Message, line string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.json {
		_, err := fmt.Fprintf(p.env.Out, "%s  %-8s  %s\n", at.UTC().Format(time.RFC3339), kind, output.Cell(s.prefix()+line))
		return err
	}
	data, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(event)
	if err != nil {
		return fmt.Errorf("print event: %w", err)
	}
	var out bytes.Buffer
	err = json.NewEncoder(&out).Encode(struct {
		Time  time.Time       `json:"time"`
		Kind  string          `json:"kind"`
		Shard string          `json:"shard,omitempty"`
		Event json.RawMessage `json:"event"`
	}{at.UTC(), kind, s.label, data})
	if err == nil {
		_, err = p.env.Out.Write(out.Bytes())
	}
	return err
}

func groupLine(e *nstancev1.GroupEvent) string {
	g := e.GetGroup()
	if e.GetType() == groupDeleted {
		return g.GetKey() + "  deleted"
	}
	line := fmt.Sprintf("%s  size %d, %d running, %d pending, %d unhealthy, %d draining", g.GetKey(), g.GetSize(), g.GetActualSize(),
		g.GetPending(), g.GetUnhealthy(), g.GetDraining())
	if remark := groupRemark(g); remark != "" {
		line += "; " + remark
	}
	return line
}

func instanceLine(e *nstancev1.InstanceEvent) string {
	parts := []string{e.GetInstanceId(), e.GetStatus() + " in " + e.GetGroup()}
	if e.GetReason() != "" {
		parts[1] += " (" + e.GetReason() + ")"
	}
	if e.GetDeleteAt() != nil {
		parts[1] += ", until " + clock(e.GetDeleteAt())
	}
	return strings.Join(parts, "  ")
}

func errorLine(e *nstancev1.ErrorEvent) string {
	subject := e.GetInstanceId()
	if subject == "" {
		subject = e.GetGroup()
	}
	return strings.TrimSpace(subject + "  " + e.GetClass() + ": " + e.GetError())
}
