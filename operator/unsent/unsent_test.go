package unsent_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/operator/unsent"
)

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: "ns", Name: name} }

var (
	pool    = unsent.Pool(key("web"))
	web     = unsent.ShardGroup(key("web--a"))
	another = unsent.ShardGroup(key("jobs--a"))
)

// add notes the sizes of so many pools.
func add(s *unsent.Sizes, n int) {
	for i := range n {
		s.Add(unsent.Pool(key(strconv.Itoa(i))), 1)
	}
}

func TestDefer(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(*unsent.Sizes)
		want time.Duration
	}{
		{"there is none", func(*unsent.Sizes) {}, 0},
		{"there is one", func(s *unsent.Sizes) { s.Add(web, 2) }, unsent.AskAgain},
		{"it has been sent", func(s *unsent.Sizes) { s.Add(web, 2); s.Done(web, 2) }, 0},
		{"an older one has been sent", func(s *unsent.Sizes) { s.Add(web, 2); s.Done(web, 1) }, unsent.AskAgain},
		{"it is added twice, and sent", func(s *unsent.Sizes) { s.Add(web, 3); s.Add(web, 2); s.Done(web, 3) }, 0},
		{"one of two has been sent", func(s *unsent.Sizes) { s.Add(web, 1); s.Add(pool, 1); s.Done(web, 1) }, unsent.AskAgain},
		{"there are as many as are sent in the pause", func(s *unsent.Sizes) { add(s, int(unsent.AskAgain/unsent.PerSize)) }, unsent.AskAgain},
		{"there are more", func(s *unsent.Sizes) { add(s, 200) }, 200 * unsent.PerSize},
		{"there are more than are waited for", func(s *unsent.Sizes) { add(s, 5000) }, unsent.MaxWait},
		{"it takes too long", func(s *unsent.Sizes) { s.Add(web, 2); time.Sleep(unsent.MaxWait) }, 0},
		{"another one takes too long", func(s *unsent.Sizes) {
			s.Add(web, 2)
			time.Sleep(unsent.MaxWait)
			s.Add(pool, 1)
		}, unsent.AskAgain},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := unsent.NewSizes(time.Now)
				row.do(s)
				if got := s.Defer(another); got != row.want {
					t.Errorf("the status waits %v, want %v", got, row.want)
				}
			})
		})
	}
}

// However many sizes come, a status waits no longer than MaxWait, and the next one may wait
// as long.
func TestDefer_NotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := unsent.NewSizes(time.Now)
		for range 3 {
			began := time.Now()
			for generation := time.Now().Unix(); ; generation++ {
				s.Done(web, generation) // others come and go
				s.Add(web, generation+1)
				wait := s.Defer(another)
				if wait == 0 {
					break
				}
				time.Sleep(wait)
			}
			if waited := time.Since(began); waited != unsent.MaxWait {
				t.Errorf("it waited %v, want %v", waited, unsent.MaxWait)
			}
		}
	})
}

func TestNil(t *testing.T) {
	var s *unsent.Sizes
	s.Add(web, 1)
	s.Done(web, 1)
	if wait := s.Defer(another); wait != 0 {
		t.Errorf("waits %v", wait)
	}
}

// sent counts requests, and answers them.
type sent struct{ at []time.Time }

func (s *sent) RoundTrip(*http.Request) (*http.Response, error) {
	s.at = append(s.at, time.Now())
	return &http.Response{StatusCode: http.StatusCreated, Body: http.NoBody}, nil
}

func TestTransport(t *testing.T) {
	const events = "https://api/apis/events.k8s.io/v1/namespaces/ns/events"
	for _, row := range []struct {
		name, method, url string
		limit             time.Duration // of the request; zero: none
		sizes             func(*unsent.Sizes)
		want              time.Duration
	}{
		{name: "no size is on its way", method: http.MethodPost, url: events, sizes: func(*unsent.Sizes) {}},
		{
			name: "until it is sent", method: http.MethodPost, url: events, want: 2 * unsent.AskAgain,
			sizes: func(s *unsent.Sizes) {
				s.Add(web, 1)
				time.AfterFunc(unsent.AskAgain+1, func() { s.Done(web, 1) })
			},
		},
		{name: "and no longer than MaxWait", method: http.MethodPost, url: events, want: unsent.MaxWait, sizes: func(s *unsent.Sizes) { s.Add(web, 1) }},
		{name: "nor than the request lasts", method: http.MethodPost, url: events, limit: time.Millisecond, want: time.Millisecond, sizes: func(s *unsent.Sizes) { s.Add(web, 1) }},
		{name: "a watch of events", method: http.MethodGet, url: events, sizes: func(s *unsent.Sizes) { s.Add(web, 1) }},
		{name: "one that has been sent goes on", method: http.MethodPatch, url: events + "/x", sizes: func(s *unsent.Sizes) { s.Add(web, 1) }},
		{name: "an object of that name", method: http.MethodPost, url: "https://api/api/v1/namespaces/events/pods/events-0/eviction", sizes: func(s *unsent.Sizes) { s.Add(web, 1) }},
		{name: "anything else", method: http.MethodPatch, url: "https://api/api/v1/nodes/n", sizes: func(s *unsent.Sizes) { s.Add(web, 1) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, server, began := unsent.NewSizes(time.Now), &sent{}, time.Now()
				row.sizes(s)
				ctx := t.Context()
				if row.limit > 0 {
					var end context.CancelFunc
					ctx, end = context.WithTimeout(ctx, row.limit)
					defer end()
				}
				request, err := http.NewRequestWithContext(ctx, row.method, row.url, nil)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := s.Transport(server).RoundTrip(request)
				if err != nil {
					t.Fatal(err)
				}
				_ = answer.Body.Close()
				if len(server.at) != 1 || server.at[0].Sub(began) != row.want {
					t.Errorf("sent at %v after %v, want once after %v", server.at, server.at[0].Sub(began), row.want)
				}
			})
		})
	}
}
