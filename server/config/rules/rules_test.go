package rules_test

import (
	"errors"
	"fmt"
	"testing"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/rules"
	"nstance.dev/server/driver"
)

// Without a provider nothing is known, and nothing is refused.
func TestNoRules(t *testing.T) {
	for name, r := range map[string]rules.Rules{"zero": {}, "none": rules.Of(nil), "empty": rules.Of(&driver.Rules{})} {
		args := map[string]any{"Any": 1}
		if err := errors.Join(r.CheckArg("Any", 1), r.CheckArgs(args), r.CheckTogether(args), r.CheckUserdata("x")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if fits, doubt := r.CheckType("any", "arm64"); !fits || doubt != nil {
			t.Errorf("%s: a type fits %t, %v", name, fits, doubt)
		}
		if n := r.MaxUserdata(); n != document.MaxUserdata {
			t.Errorf("%s: %d bytes of user data", name, n)
		}
		if traits := r.Traits([]string{"any"}, args); traits != (driver.Traits{}) || len(r.SizeArgs()) > 0 {
			t.Errorf("%s: %+v, %v", name, traits, r.SizeArgs())
		}
	}
	if rules.Of(nil).Sensitive("Role") || !rules.Of(&driver.Rules{}).Sensitive("Role") {
		t.Error("an argument carries rights where no provider is known, or none where one is")
	}
}

func TestRules(t *testing.T) {
	odd, refused := fmt.Errorf("%w: is odd", driver.ErrArgWarning), errors.New("is refused")
	r := rules.Of(&driver.Rules{
		ForbiddenArgs: []string{"UserData"}, TenantArgs: []string{"Plain"}, MaxUserdata: 2 * document.MaxUserdata,
		CheckArg: func(name string, _ any) error {
			return map[string]error{"Odd": odd, "Bad": refused, "Worse": refused}[name]
		},
		CheckInstanceType: func(typ, _ string) error {
			return map[string]error{"new": driver.ErrUnknownType, "arm": refused}[typ]
		},
		Traits: func(typ string, _ map[string]any) driver.Traits { return driver.Traits{Interruptible: typ == "spot"} },
	})
	for name, want := range map[string]error{"UserData": errors.New("is set by the server itself"), "Odd": odd, "Bad": refused, "Plain": nil} {
		if err := r.CheckArg(name, 1); fmt.Sprint(err) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if err := r.CheckArgs(map[string]any{"Worse": 1, "Odd": 1, "Bad": 1}); err == nil || err.Error() != "Bad: is refused" {
		t.Errorf("the first of several: %v", err)
	}
	if err := r.CheckArgs(map[string]any{"Odd": 1}); err != nil {
		t.Errorf("a doubt refuses: %v", err)
	}
	for typ, want := range map[string]bool{"new": true, "arm": false, "known": true} {
		if fits, err := r.CheckType(typ, "arm64"); fits != want || (err == nil) != (typ == "known") {
			t.Errorf("%s: fits %t, %v", typ, fits, err)
		}
	}
	if n := r.MaxUserdata(); n != document.MaxUserdata {
		t.Errorf("%d bytes of user data: no provider raises the limit", n)
	}
	if !r.Traits([]string{"spot", "other"}, nil).Interruptible || r.Traits(nil, nil).Interruptible {
		t.Error("the traits are not those of the first type")
	}
	if r.Sensitive("Plain") || !r.Sensitive("plain") {
		t.Error("an argument that tenants have carries rights, or one that is spelt otherwise does not")
	}
}
