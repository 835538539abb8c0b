package session

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"nstance.dev/agent/settings"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

func TestReports(t *testing.T) {
	const minute = time.Minute
	for _, tt := range []struct {
		name    string
		setting settings.Report
		do      func(*reports)
		want    time.Time
	}{
		{"nothing before the welcome", settings.Report{}, func(r *reports) { r.hurry(t0, 0.5) }, time.Time{}},
		{"the first at once", settings.Report{}, func(r *reports) { r.welcome(minute, t0, 0.5) }, t0},
		{"then after the interval", settings.Report{}, func(r *reports) {
			r.welcome(minute, t0, 0.5)
			r.reported(t0, 0.5)
		}, at(minute)},
		{"5% earlier at the least", settings.Report{}, func(r *reports) {
			r.welcome(minute, t0, 0.5)
			r.reported(t0, 0)
		}, at(57 * time.Second)},
		{"a minute if the server says none", settings.Report{}, func(r *reports) {
			r.welcome(0, t0, 0.5)
			r.reported(t0, 0.5)
		}, at(minute)},
		{"an interval of the machine's own", settings.Report{Interval: 10 * time.Second}, func(r *reports) {
			r.welcome(minute, t0, 0.5)
			r.reported(t0, 0.5)
		}, at(10 * time.Second)},
		{"news a second after the last report", settings.Report{}, func(r *reports) {
			r.welcome(minute, t0, 0.5)
			r.reported(t0, 0.5)
			r.hurry(at(100*time.Millisecond), 0.5)
		}, at(time.Second)},
		{"news long after the last report", settings.Report{}, func(r *reports) {
			r.welcome(minute, t0, 0.5)
			r.reported(t0, 0.5)
			r.hurry(at(30*time.Second), 0)
		}, at(30 * time.Second)},
		{"those of many machines come one after another", settings.Report{}, func(r *reports) {
			r.welcome(minute, t0, 0.5)
			r.reported(t0, 0.5)
			r.hurry(at(30*time.Second), 0.75)
		}, at(30*time.Second + 750*time.Millisecond)},
		{"news do not put a report off", settings.Report{}, func(r *reports) {
			r.welcome(minute, t0, 0.5)
			r.reported(t0, 0.5)
			r.hurry(at(2*minute), 0.5)
		}, at(minute)},
		{"a shorter interval counts from the last report", settings.Report{}, func(r *reports) {
			r.welcome(minute, t0, 0.5)
			r.reported(t0, 0.5)
			r.welcome(20*time.Second, at(5*time.Second), 0.5)
		}, at(20 * time.Second)},
		{"a shorter interval that is over already", settings.Report{}, func(r *reports) {
			r.welcome(minute, t0, 0.5)
			r.reported(t0, 0.5)
			r.welcome(20*time.Second, at(30*time.Second), 0.5)
		}, at(30 * time.Second)},
		{"disabled: none after the first, whatever happens", settings.Report{Disabled: true}, func(r *reports) {
			r.welcome(minute, t0, 0.5)
			r.reported(t0, 0.5)
			r.hurry(at(time.Second), 0.5)
			r.welcome(20*time.Second, at(time.Second), 0.5)
		}, at(never)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := reports{setting: tt.setting}
			tt.do(&r)
			if !r.due.Equal(tt.want) {
				t.Errorf("due at %v, want %v", r.due, tt.want)
			}
		})
	}
}

func TestWatch(t *testing.T) {
	lost := ending{err: status.Error(codes.Unavailable, "")}
	streamed := func(since time.Duration) ending { return ending{err: lost.err, welcomed: at(since)} }
	for _, tt := range []struct {
		name string
		from watch
		end  ending
		want watch
	}{
		{"the first failure", watch{lost: at(-time.Second)}, lost, watch{1, at(-time.Second)}},
		{"one more", watch{3, at(-time.Minute)}, lost, watch{4, at(-time.Minute)}},
		{"a stream that held begins anew", watch{7, at(-time.Hour)}, streamed(-time.Minute), watch{1, t0}},
		{"F35: one that did not goes on slowing down", watch{7, at(-time.Hour)}, streamed(-time.Second), watch{8, t0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := tt.from
			w.next(tt.end, t0, 0.5)
			if w != tt.want {
				t.Errorf("%+v, want %+v", w, tt.want)
			}
		})
	}
}

func TestL10_RetryIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		left := time.Duration(rapid.Int64Range(0, int64(720*time.Hour)).Draw(t, "left"))
		random := rapid.Float64Range(0, 0.999).Draw(t, "random")
		d := retryIn(t0, t0.Add(left), random)
		if d < 9*time.Second || d > 66*time.Minute {
			t.Fatalf("pause of %v with %v left", d, left)
		}
		if left > time.Minute && d > left/3 {
			t.Fatalf("pause of %v leaves no second chance in %v", d, left)
		}
	})
}
