package cloud

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

func small() *Cloud {
	c := New()
	c.Offer("small", Times{Boot: 30 * time.Second, Join: 10 * time.Second, Leave: 5 * time.Second, Delete: 20 * time.Second})
	return c
}

func TestAMachineTakesItsTime(t *testing.T) {
	c := small()
	if err := c.Create("a", "small", at(0)); err != nil {
		t.Fatal(err)
	}
	var told string
	for s := 1; s <= 200; s++ {
		for _, e := range c.Step(at(s)) {
			told += fmt.Sprintf("%d:%s ", s, e.Stage)
		}
		switch s {
		case 35:
			if err := c.Configure("a", "one", at(s)); err != nil {
				t.Fatal(err)
			}
		case 60:
			if err := c.Leave("a", at(s)); err != nil {
				t.Fatal(err)
			}
		case 70:
			c.Delete("a", at(s))
		}
	}
	if want := "30:idle 45:joined 65:idle 90:gone "; told != want {
		t.Errorf("got %s, want %s", told, want)
	}
}

func TestOneIDOneMachine(t *testing.T) {
	c := small()
	for range 3 {
		if err := c.Create("a", "small", at(0)); err != nil {
			t.Fatal(err)
		}
	}
	c.Delete("a", at(0))
	c.Step(at(20))
	if err := c.Create("a", "small", at(21)); err != nil || c.Made() != 1 || len(c.Live()) != 0 {
		t.Errorf("%v; %d made, %d live", err, c.Made(), len(c.Live()))
	}
	c.Offer("large", Times{})
	if err := c.Create("a", "large", at(22)); err == nil {
		t.Error("an id is asked for with another type")
	}
}

func TestRoomAndScript(t *testing.T) {
	c := small()
	c.SetRoom("small", 2)
	c.Script("small", Quota, NoCapacity, NeverBoots, NeverJoins)
	for i, want := range []error{ErrQuota, ErrNoCapacity, nil, nil, ErrNoCapacity} {
		if err := c.Create(fmt.Sprint(i), "small", at(0)); !errors.Is(err, want) {
			t.Errorf("create %d answers %v, want %v", i, err, want)
		}
	}
	c.Step(at(30))
	if got := c.Get("2").Stage; got != Broken {
		t.Errorf("the machine that never boots is %s", got)
	}
	if err := c.Configure("3", "one", at(30)); err != nil {
		t.Fatal(err)
	}
	c.Step(at(3000))
	if got := c.Get("3").Stage; got != Joining {
		t.Errorf("the machine that never joins is %s", got)
	}
	c.Delete("2", at(3000))
	c.Step(at(3020))
	if err := c.Create("5", "small", at(3020)); err != nil {
		t.Errorf("a machine that is gone gives its room back: %v", err)
	}
}

func TestCallsOutOfPlaceAreRefused(t *testing.T) {
	c := small()
	if err := c.Create("a", "small", at(0)); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"configure while it boots": c.Configure("a", "one", at(1)), "leave while it boots": c.Leave("a", at(1)),
	} {
		if !errors.Is(err, ErrStage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.Configure("b", "one", at(1)); !errors.Is(err, ErrNotFound) {
		t.Errorf("an unknown machine: %v", err)
	}
	c.Step(at(30))
	if err := c.Configure("a", "one", at(30)); err != nil {
		t.Fatal(err)
	}
	if err := c.Configure("a", "two", at(31)); !errors.Is(err, ErrStage) {
		t.Errorf("two clusters at once: %v", err)
	}
	c.Kill("a")
	if events := c.Step(at(32)); len(events) != 1 || events[0].Stage != Broken || c.Get("a").Cluster() != "one" {
		t.Errorf("killed: %v", events)
	}
}
