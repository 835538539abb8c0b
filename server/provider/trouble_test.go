package provider

import (
	"context"
	"testing"
	"time"

	"nstance.dev/server/driver"
)

func TestTroubleBook(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	away := driver.Fail(driver.Transient, "list", nil)
	tests := []struct {
		name     string
		outcomes []error // one a second, each call a second long
		want     Trouble
	}{
		{"nothing tried", nil, Trouble{}},
		{"all is well", []error{nil, nil}, Trouble{}},
		{"a refusal comes through", []error{away, driver.Fail(driver.Capacity, "create", nil)}, Trouble{}},
		{"failing from the start", []error{away, context.DeadlineExceeded}, Trouble{Since: at(0), Last: at(2), Tried: 2}},
		{"failing after a success", []error{away, nil, away, away, away}, Trouble{Since: at(2), Last: at(5), Tried: 3}},
	}
	for _, tt := range tests {
		var b troubleBook
		for i, err := range tt.outcomes {
			b.outcome(at(i), at(i+1), err)
		}
		if got := b.trouble; got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
