package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newEventsCommand(env *Env) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Follow everything that happens: groups, instances and errors",
		Long: `Follow changes of groups, the lives of instances and errors in one stream, one line
each, until interrupted. It begins with all groups as they are and the instances
that are to be deleted. In JSON each line is an object {"time","kind","event"},
where event is the message of the API.`,
		Example: `  nstance-admin events
  nstance-admin events --all-shards -o json | jq 'select(.kind == "error")'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := addShardFlags(cmd)
	addOutputFlag(cmd, &format, output.Table, output.Wide, output.JSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if format == output.YAML || format == output.Name {
			return usagef("events has the formats table, wide and json")
		}
		printer := &eventPrinter{env: env, json: format == output.JSON}
		return watchShards(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
			return printer.follow(ctx, s)
		})
	}
	return cmd
}

// eventPrinter prints events of different kinds as they come. It is safe for
// concurrent use.
type eventPrinter struct {
	env  *Env
	json bool
	mu   sync.Mutex
}

// follow prints the three streams of one shard.
func (p *eventPrinter) follow(ctx context.Context, s *shard) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return watchGroups(ctx, p.env, s, func(e *nstancev1.GroupEvent) error {
			return p.print(s, "group", p.env.Now(), e, groupLine(e))
		})
	})
	group.Go(func() error {
		return follow(ctx, p.env, s, openInstanceEvents(s), func(e *nstancev1.InstanceEvent) error {
			if e.GetInstanceId() == "" { // a sign of the stream itself
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
