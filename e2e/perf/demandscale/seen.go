package demandscale

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"nstance.dev/protos/identity"
)

// seen is when what was first seen. It is safe for concurrent use.
type seen struct {
	mu    sync.Mutex
	times map[string]map[string]time.Time // by what happened, and to what
}

// What is seen.
const (
	podMade     = "Pods made"
	podBound    = "Pods bound"
	podGone     = "Pods gone"
	machineMade = "machines made"
	machineGone = "machines gone"
	nodeMade    = "Nodes made"
	nodeChosen  = "Nodes chosen to go"
	nodeGone    = "Nodes gone"
)

func (s *seen) note(what, which string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.times == nil {
		s.times = map[string]map[string]time.Time{}
	}
	if s.times[what] == nil {
		s.times[what] = map[string]time.Time{}
	}
	if _, before := s.times[what][which]; !before {
		s.times[what][which] = now
	}
}

// of returns when things happened, by what they happened to.
func (s *seen) of(what string) map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.times[what])
}

// count is how often something has happened.
func (s *seen) count(what string) int { return len(s.of(what)) }

// first and last are when something happened first and last. It has happened.
func (s *seen) first(what string) time.Time {
	return slices.MinFunc(slices.Collect(maps.Values(s.of(what))), time.Time.Compare)
}

func (s *seen) last(what string) time.Time {
	return slices.MaxFunc(slices.Collect(maps.Values(s.of(what))), time.Time.Compare)
}

// timeline says from when to when things happened, in seconds after a moment.
func (s *seen) timeline(began time.Time, of ...string) string {
	var b strings.Builder
	for _, what := range of {
		if s.count(what) > 0 {
			fmt.Fprintf(&b, "%s %.2f to %.2f s; ", what, since(began, s.first(what)), since(began, s.last(what)))
		}
	}
	return strings.TrimSuffix(b.String(), "; ")
}

// look is the pause between two looks at the directories of machines.
const look = 5 * time.Millisecond

// watch notes what happens from now on until stop is called.
func (w *world) watch() (s *seen, stop func()) {
	w.t.Helper()
	s = &seen{}
	ctx, cancel := context.WithCancel(w.t.Context())
	factory := informers.NewSharedInformerFactory(w.Client, 0)
	pods := func(object any) {
		if p, is := object.(*corev1.Pod); is && p.Namespace == metav1.NamespaceDefault {
			if s.note(podMade, p.Name); p.Spec.NodeName != "" {
				s.note(podBound, p.Name)
			}
		}
	}
	nodes := func(object any) {
		if n, is := object.(*corev1.Node); is {
			if s.note(nodeMade, n.Name); n.Spec.Unschedulable {
				s.note(nodeChosen, n.Name)
			}
		}
	}
	gone := func(what string) func(any) {
		return func(object any) {
			if key, err := cache.DeletionHandlingObjectToName(object); err == nil {
				s.note(what, key.Name)
			}
		}
	}
	for _, watched := range []struct {
		informer cache.SharedIndexInformer
		look     func(any)
		gone     string
	}{{factory.Core().V1().Pods().Informer(), pods, podGone}, {factory.Core().V1().Nodes().Informer(), nodes, nodeGone}} {
		if _, err := watched.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: watched.look, UpdateFunc: func(_, object any) { watched.look(object) }, DeleteFunc: gone(watched.gone),
		}); err != nil {
			w.t.Fatal(err)
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var directories sync.WaitGroup
	directories.Go(func() { w.watchMachines(ctx, s) })
	return s, func() {
		cancel()
		directories.Wait()
		factory.Shutdown()
	}
}

func isMachine(name string) bool {
	_, err := identity.ParseID(name)
	return err == nil
}

// watchMachines notes which machines come and go.
func (w *world) watchMachines(ctx context.Context, s *seen) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	there := map[string]bool{}
	for ctx.Err() == nil {
		dirs, _ := filepath.Glob(w.servers.MachineDirs()) // the pattern is good
		now := map[string]bool{}
		for _, dir := range dirs {
			// What else lies there belongs to the provider.
			if name := filepath.Base(dir); isMachine(name) {
				now[name] = true
				s.note(machineMade, name)
			}
		}
		for name := range there {
			if !now[name] {
				s.note(machineGone, name)
			}
		}
		there = now
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}
