package hostile

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/e2e/env/box"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// nothingOfOthers is what an answer comes to that has no trace of another tenant.
const nothingOfOthers = "nothing of others"

// traces returns what of others stands in a text as a word: tenants, groups, ids, or nothing.
// Within a random id of one's own there may be any three letters.
func (w *world) traces(t *testing.T, text string) string {
	t.Helper()
	marks := []string{"web", "ours", victim, "plan-of-" + victim, "variable-of-" + victim}
	for _, tenant := range []string{victim, admin} {
		list, err := w.operator(t, tenant).ListInstances(call(t), &nstancev1.ListInstancesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range list.Instances {
			marks = append(marks, in.InstanceId)
		}
	}
	for _, mark := range marks {
		if regexp.MustCompile(`(^|[^a-zA-Z0-9])` + regexp.QuoteMeta(mark) + `($|[^a-zA-Z0-9])`).MatchString(text) {
			return fmt.Sprintf("it shows %q of another tenant: %.2000s", mark, text)
		}
	}
	return nothingOfOthers
}

// answer is all of what a call brought.
func answer(m proto.Message, err error) string { return fmt.Sprint(m, " ", said(err)) }

func listings() []attempt {
	rows := []attempt{
		{"S12", "ListGroups", nothingOfOthers, func(t *testing.T, w *world) string {
			m, err := w.operator(t, attacker).ListGroups(call(t), &emptypb.Empty{})
			return w.traces(t, answer(m, err))
		}},
		{"S12", "ListInstances", nothingOfOthers, func(t *testing.T, w *world) string {
			m, err := w.operator(t, attacker).ListInstances(call(t), &nstancev1.ListInstancesRequest{PageSize: 1000})
			return w.traces(t, answer(m, err))
		}},
		{"S12", "ListHeldVMs", nothingOfOthers, func(t *testing.T, w *world) string {
			m, err := w.operator(t, attacker).ListHeldVMs(call(t), &emptypb.Empty{})
			return w.traces(t, answer(m, err))
		}},
		{"S12", "GetServerInfo", nothingOfOthers, func(t *testing.T, w *world) string {
			m, err := w.operator(t, attacker).GetServerInfo(call(t), &emptypb.Empty{})
			return w.traces(t, answer(m, err))
		}},
		{"S12", "GetTenantStatus of another tenant", nothingOfOthers, func(t *testing.T, w *world) string {
			m, err := w.operator(t, attacker).GetTenantStatus(call(t), &nstancev1.GetTenantStatusRequest{Tenant: "acm\x00e"})
			return w.traces(t, answer(m, err))
		}},
		{"S12", "the status of the configuration tells everybody of all of it", "own part", func(t *testing.T, w *world) string {
			all, err := w.operator(t, admin).GetConfigStatus(call(t), &emptypb.Empty{})
			if err != nil {
				return said(err)
			}
			own, err := w.operator(t, attacker).GetConfigStatus(call(t), &emptypb.Empty{})
			if err != nil || own.Etag == all.Etag || own.Size != 0 || own.LastModified != nil {
				return answer(own, err)
			}
			return "own part"
		}},
		{"S12", "the revision of a change counts the changes of other tenants", "the same step", revisionOfAChange},
		{"S12", "the revision of an untouched group moves with other tenants", "the same revision", revisionOfAGroup},
	}
	for name, token := range map[string]func(t *testing.T, w *world) string{
		"an id of another tenant": func(t *testing.T, w *world) string { return w.foreign(t) },
		"the lowest text":         func(*testing.T, *world) string { return "\x00" },
		"a path":                  func(*testing.T, *world) string { return "../acme/" },
		"SQL":                     func(*testing.T, *world) string { return "' OR tenant = 'acme' --" },
		"a long text":             func(*testing.T, *world) string { return strings.Repeat("a", 100_000) },
	} {
		rows = append(rows, attempt{"S12", name + " as a page token", nothingOfOthers, func(t *testing.T, w *world) string {
			m, err := w.operator(t, attacker).ListInstances(call(t), &nstancev1.ListInstancesRequest{PageToken: token(t, w), PageSize: 1 << 30})
			return w.traces(t, answer(m, err))
		}})
	}
	for _, pair := range [][2]string{{"tenant", victim}, {"nstance-tenant", victim}, {"x-forwarded-client-cert", "Subject=\"O=acme\""}, {"nstance-manager", "acme"}} {
		rows = append(rows, attempt{"S12", "metadata " + pair[0], nothingOfOthers, func(t *testing.T, w *world) string {
			ctx := metadata.AppendToOutgoingContext(call(t), pair[0], pair[1])
			m, err := w.operator(t, attacker).ListGroups(ctx, &emptypb.Empty{})
			if err == nil && len(m.Groups) == 0 {
				return "the own groups are gone"
			}
			return w.traces(t, answer(m, err))
		}})
	}
	return rows
}

// busy is what the other tenants do meanwhile.
func (w *world) busy(t *testing.T, times int) {
	t.Helper()
	config := plainGroup(0)
	config.Vars = &nstancev1.StringMap{Values: map[string]string{"mark": "variable-of-" + victim}}
	c := w.operator(t, victim)
	for i := range times {
		config.Vars.Values["round"] = fmt.Sprint(time.Now().UnixNano(), i)
		if _, err := c.UpsertGroup(call(t), &nstancev1.UpsertGroupRequest{Key: "plan-of-" + victim, Config: config}); err != nil {
			t.Fatal(err)
		}
	}
}

// revisionOfAChange compares the step between two own changes with the one between two that
// have twenty of another tenant between them.
func revisionOfAChange(t *testing.T, w *world) string {
	c := w.operator(t, attacker)
	change := func(n int) int64 {
		config := plainGroup(0)
		config.Vars = &nstancev1.StringMap{Values: map[string]string{"n": fmt.Sprint(n)}}
		st, err := c.UpsertGroup(call(t), &nstancev1.UpsertGroupRequest{Key: "counted", Config: config})
		if err != nil {
			t.Fatal(err)
		}
		return st.Revision
	}
	first, second := change(1), change(2)
	w.busy(t, 20)
	if third := change(3); third-second > second-first+5 { // the own machines count too
		return fmt.Sprintf("%d, %d, and after twenty changes of another tenant %d", first, second, third)
	}
	return "the same step"
}

func revisionOfAGroup(t *testing.T, w *world) string {
	c := w.operator(t, attacker)
	revision := func() int64 {
		m, err := c.ListGroups(call(t), &emptypb.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range m.Groups {
			if g.Key == "counted" {
				return g.Revision
			}
		}
		t.Fatal("the group is gone")
		return 0
	}
	before := revision()
	w.busy(t, 20)
	if after := revision(); after > before+5 {
		return fmt.Sprintf("%d, and after twenty changes of another tenant %d", before, after)
	}
	return "the same revision"
}

// watches follow each of the three streams while the other tenants live.
func watches() (rows []attempt) {
	for name, open := range map[string]func(ctx context.Context, c nstancev1.OperatorServiceClient) (func() (proto.Message, error), error){
		"WatchGroups": func(ctx context.Context, c nstancev1.OperatorServiceClient) (func() (proto.Message, error), error) {
			s, err := c.WatchGroups(ctx, &emptypb.Empty{})
			return receiver(s), err
		},
		"WatchInstances": func(ctx context.Context, c nstancev1.OperatorServiceClient) (func() (proto.Message, error), error) {
			s, err := c.WatchInstances(ctx, &nstancev1.WatchInstancesRequest{CoordinatesDrains: true})
			return receiver(s), err
		},
		"WatchErrors": func(ctx context.Context, c nstancev1.OperatorServiceClient) (func() (proto.Message, error), error) {
			s, err := c.WatchErrors(ctx, &emptypb.Empty{})
			return receiver(s), err
		},
	} {
		rows = append(rows, attempt{"S12", name, nothingOfOthers, func(t *testing.T, w *world) string {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			next, err := open(ctx, w.operator(t, attacker))
			if err != nil {
				return said(err)
			}
			var heard strings.Builder
			var listening sync.WaitGroup
			listening.Go(func() {
				for {
					m, err := next()
					if err != nil {
						if !errors.Is(ctx.Err(), context.Canceled) {
							heard.WriteString(said(err))
						}
						return
					}
					fmt.Fprintln(&heard, m)
				}
			})
			w.busy(t, 3)
			if _, err := w.operator(t, victim).CreateInstance(call(t), &nstancev1.CreateInstanceRequest{Config: &nstancev1.InstanceConfig{Group: "mute"}}); err != nil {
				t.Fatal(err)
			}
			w.provokeError(t)
			cancel()
			listening.Wait()
			return w.traces(t, heard.String())
		}})
	}
	return rows
}

// receiver has a stream's messages as what all messages are.
func receiver[T any](stream grpc.ServerStreamingClient[T]) func() (proto.Message, error) {
	return func() (proto.Message, error) {
		event, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		return any(event).(proto.Message), nil
	}
}

// provokeError has a machine of the other tenant do what the tenant is told as an error.
func (w *world) provokeError(t *testing.T) {
	t.Helper()
	m := w.member(t, victim, nil)
	_, _ = w.newcomer(t).RegisterAgent(call(t), box.Registration(t, m.token, box.NewKey(t))) // a nonce that was used, with another key
}
