package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/dashboard"
	"nstance.dev/admin/output"
	"nstance.dev/admin/wait"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// rewatch is how long streams rest after none could be opened.
const rewatch = 5 * time.Second

// dashboardSource knows the servers for the dashboard.
type dashboardSource struct {
	env    *Env
	flags  *shardFlags
	shards []*shard
}

// Look implements dashboard.Source.
func (d *dashboardSource) Look(ctx context.Context) []dashboard.Shard {
	all := make([]dashboard.Shard, len(d.shards))
	var group errgroup.Group
	for i, s := range d.shards {
		group.Go(func() error {
			all[i].Name = s.name
			err := onShard(ctx, d.flags.timeout, s, func(ctx context.Context, s *shard) error { return lookShard(ctx, s, &all[i]) })
			if err != nil {
				all[i].Err = text(err)
			}
			return nil
		})
	}
	_ = group.Wait() // each error stands with its shard
	slices.SortFunc(all, func(a, b dashboard.Shard) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func lookShard(ctx context.Context, s *shard, into *dashboard.Shard) error {
	info, err := s.api.GetServerInfo(ctx, &emptypb.Empty{})
	if err != nil {
		return err
	}
	groups, err := s.api.ListGroups(ctx, &emptypb.Empty{})
	if err != nil {
		return err
	}
	into.Instances, _, err = wait.ListInstances(ctx, s.api)
	into.Term, into.Version, into.Leader, into.Groups = info.GetTerm(), info.GetVersion(), s.conn.Serving(), groups.GetGroups()
	return err
}

// Watch implements dashboard.Source. Streams that end are opened again.
func (d *dashboardSource) Watch(ctx context.Context, happened func(dashboard.Event)) {
	quiet := *d.env
	quiet.Err = io.Discard // the screen says what does not answer
	var all errgroup.Group
	for _, s := range d.shards {
		all.Go(func() error {
			for ctx.Err() == nil {
				_ = watchEvents(ctx, &quiet, s, happened) // opened again, whatever ended it
				select {
				case <-ctx.Done():
				case <-time.After(rewatch):
				}
			}
			return nil
		})
	}
	_ = all.Wait()
}

func watchEvents(ctx context.Context, env *Env, s *shard, happened func(dashboard.Event)) error {
	group, ctx := errgroup.WithContext(ctx)
	tell := func(kind string, at time.Time, line string) error {
		happened(dashboard.Event{At: at, Shard: s.name, Kind: kind, Text: line})
		return nil
	}
	group.Go(func() error {
		return watchGroups(ctx, env, s, func(e *nstancev1.GroupEvent) error { return tell("group", env.Now(), groupLine(e)) })
	})
	group.Go(func() error {
		return follow(ctx, env, s, openInstanceEvents(s), func(e *nstancev1.InstanceEvent) error {
			if e.GetInstanceId() == "" { // a sign of the stream itself
				return nil
			}
			return tell("instance", env.Now(), instanceLine(e))
		})
	})
	group.Go(func() error {
		open := func(ctx context.Context) (receiver[nstancev1.ErrorEvent], error) {
			return s.api.WatchErrors(ctx, &emptypb.Empty{})
		}
		return follow(ctx, env, s, open, func(e *nstancev1.ErrorEvent) error { return tell("error", e.GetTimestamp().AsTime(), errorLine(e)) })
	})
	return group.Wait()
}

// Do implements dashboard.Source: what it does is what the commands of the same name do.
func (d *dashboardSource) Do(ctx context.Context, r dashboard.Request) dashboard.Answer {
	i := slices.IndexFunc(d.shards, func(s *shard) bool { return s.name == r.Shard })
	if i < 0 {
		return dashboard.Answer{Notice: "shard " + r.Shard + " is not among those that are shown"}
	}
	var out bytes.Buffer
	env := *d.env
	env.Out, env.Err, env.Terminal, env.Prompt = &out, &out, false, false
	subject := "group " + r.Group
	if r.Instance != "" {
		subject = "instance " + r.Instance
	}
	err := onShard(ctx, d.flags.timeout, d.shards[i], func(ctx context.Context, s *shard) error {
		return doOnShard(ctx, &env, s, r)
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return dashboard.Answer{}
	case err != nil:
		notice := "error: " + text(err)
		if h := hint(err); h != "" {
			notice += "; " + h
		}
		return dashboard.Answer{Notice: notice}
	case r.Verb == dashboard.Describe || r.Verb == dashboard.Explain || r.Verb == dashboard.Plan:
		return dashboard.Answer{Title: string(r.Verb) + " " + subject, Text: out.String()}
	}
	return dashboard.Answer{Notice: strings.TrimSpace(out.String())}
}

// decisionsShown is how many decisions a text on the screen has.
const decisionsShown = 30

func doOnShard(ctx context.Context, env *Env, s *shard, r dashboard.Request) error {
	switch r.Verb {
	case dashboard.Scale:
		return scaleGroup(ctx, env, s, r.Group, r.Size, &changeFlags{}, &waitFlag{})
	case dashboard.Pause:
		return pauseGroup(ctx, env, s, r.Group, r.Reason)
	case dashboard.Resume:
		return resumeOn(ctx, env, s, []string{scopeGroup, r.Group}, false)
	case dashboard.Describe:
		if r.Instance == "" {
			return describe(ctx, env, s, []string{r.Group}, &explainOptions{format: output.As(output.Table), last: decisionsShown})
		}
	case dashboard.Explain, dashboard.Plan:
	default:
		return errors.New("unknown request " + string(r.Verb))
	}
	target := &nstancev1.ExplainRequest{Target: &nstancev1.ExplainRequest_Group{Group: r.Group}}
	if r.Instance != "" {
		target.Target = &nstancev1.ExplainRequest_InstanceId{InstanceId: r.Instance}
	}
	why, err := s.api.Explain(ctx, target)
	if err != nil {
		return err
	}
	switch r.Verb {
	case dashboard.Describe:
		return describeInstance(env, s, why, decisionsShown)
	case dashboard.Plan:
		t := newTree(env.Out, env.Now())
		t.line(0, "group %s: size %s, %d running", r.Group, sizeOf(why.GetGroup()), why.GetGroup().GetActualSize())
		t.next(1, why.GetNext())
		return t.err
	default:
		opts := explainOptions{format: output.As(output.Table), last: decisionsShown}
		return opts.print(env, s, why)
	}
}
