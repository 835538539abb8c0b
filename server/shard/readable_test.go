package shard

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/config"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
)

// TestS24_AcceptedIsReadable: whatever one tenant asks for, the group file can be read
// by the next leader, and another tenant's call is answered as if nothing had been.
func TestS24_AcceptedIsReadable(t *testing.T) {
	upsert := func(change func(*nstancev1.UpsertGroupRequest)) func(*world) error {
		return func(w *world) error {
			req := &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{
				Template: proto.String("plain"), Size: proto.Int32(0),
			}}
			change(req)
			_, err := w.reign().UpsertGroup(w.ctx, "default", req)
			return err
		}
	}
	arg := func(name, value string) func(*world) error {
		return upsert(func(req *nstancev1.UpsertGroupRequest) {
			req.Config.Args = &nstancev1.StringMap{Values: map[string]string{name: value}}
		})
	}
	pause := func(req *nstancev1.SetPauseRequest) func(*world) error {
		return func(w *world) error {
			_, err := w.reign().SetPause(w.ctx, "default", req)
			return err
		}
	}
	for name, c := range map[string]struct {
		ask  func(*world) error
		code refusal.Code
	}{
		"many groups with much text": {func(w *world) (err error) {
			for i := range 40 {
				vars := map[string]string{"a": strings.Repeat("x", 250<<10)}
				one := upsert(func(req *nstancev1.UpsertGroupRequest) {
					req.Key, req.Config.Vars = fmt.Sprintf("web-%d", i), &nstancev1.StringMap{Values: vars}
				})(w)
				if one != nil {
					err = one
				}
			}
			return err
		}, refusal.ResourceExhausted},
		"manager with a NUL":        {upsert(func(req *nstancev1.UpsertGroupRequest) { req.Manager = "a\x00b" }), refusal.InvalidArgument},
		"manager with a line break": {upsert(func(req *nstancev1.UpsertGroupRequest) { req.Manager = "a\nb" }), refusal.InvalidArgument},
		"manager of 3 MiB":          {upsert(func(req *nstancev1.UpsertGroupRequest) { req.Manager = strings.Repeat("m", 3<<20) }), refusal.InvalidArgument},
		"argument with a NUL":       {arg("a", `"\u0000"`), refusal.InvalidArgument},
		"argument's name with NUL":  {arg("a\x00", `1`), refusal.InvalidArgument},
		"argument's inner name":     {arg("a", `{"b": {"\u0000": 1}}`), refusal.InvalidArgument},
		"argument nested 80 deep":   {arg("a", strings.Repeat("[", 80)+strings.Repeat("]", 80)), refusal.InvalidArgument},
		"argument's name of 1 MiB":  {arg(strings.Repeat("a", 1<<20), `1`), refusal.InvalidArgument},
		"reason with a NUL":         {pause(&nstancev1.SetPauseRequest{Scope: "tenant", Reason: "a\x00b"}), refusal.InvalidArgument},
		"reason with a line break":  {pause(&nstancev1.SetPauseRequest{Scope: "tenant", Reason: "a\nb"}), refusal.InvalidArgument},
		"until a year that no date has": {pause(&nstancev1.SetPauseRequest{
			Scope: "tenant", Reason: "r", Until: &timestamppb.Timestamp{Seconds: 1 << 40},
		}), refusal.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
				w.scale(theirs, 2)
				w.settle(time.Minute)
				if err := c.ask(w); !refusedWith(err, c.code) {
					t.Errorf("got %v, want %v", err, c.code)
				}
				o, err := w.store.Get(w.ctx, groupsKey)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := config.DecodeGroups(groupsKey, o.Data); err != nil {
					t.Errorf("the stored file: %v", err)
				}
				w.stop()
				w.lead()
				if err := w.tryScale(theirs, 3); err != nil {
					t.Errorf("another tenant, after a change of leader: %v", err)
				}
				w.cloud.Kill(w.vms(theirs)[0].InstanceID)
				w.settle(2 * time.Minute)
				w.converged(3)
			})
		})
	}
}

// TestS24_OnlyWhatDoesNotFitIsRefused: the file is nearly full, with what a server
// without quotas had let in. Of changes in one write those are refused that find no
// room, and nobody else's.
func TestS24_OnlyWhatDoesNotFitIsRefused(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.stop()
		file := w.groupFile()
		for i := range 32 {
			file.Set("default", fmt.Sprintf("old-%d", i), config.DynamicGroup{
				Template: "plain", Vars: config.Vars{"a": strings.Repeat("x", 255<<10)},
			})
		}
		data, err := config.EncodeGroups(file)
		if err != nil {
			t.Fatal(err)
		}
		w.overwrite(groupsKey, string(data))
		w.lead()
		large := func() error {
			_, err := w.reign().UpsertGroup(w.ctx, "b", &nstancev1.UpsertGroupRequest{Key: "large", Config: &nstancev1.GroupConfig{
				Template: proto.String("plain"), Vars: &nstancev1.StringMap{Values: map[string]string{"a": strings.Repeat("x", 200<<10)}},
			}})
			return err
		}
		answers := w.together(
			func() error { return w.tryScale(theirs, 1) },
			large,
			func() error { return w.tryScale(fleet.GroupID{Tenant: "b", Name: "small"}, 1) },
			func() error { return w.tryScale(web, 0) },
		)
		if !refusedWith(answers[1], refusal.ResourceExhausted) {
			t.Errorf("what does not fit: %v, want ResourceExhausted", answers[1])
		}
		answers[1] = nil
		if err := errors.Join(answers...); err != nil {
			t.Errorf("the others: %v", err)
		}
		w.stop()
		w.lead()
		if a, b, c := w.sizeOf(theirs), w.sizeOf(fleet.GroupID{Tenant: "b", Name: "small"}), w.sizeOf(web); a != 1 || b != 1 || c != 0 {
			t.Errorf("sizes %d, %d, %d for the next leader, want 1, 1, 0", a, b, c)
		}
	})
}
