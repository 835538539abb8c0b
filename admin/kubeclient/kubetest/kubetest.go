// Package kubetest is an API server of Kubernetes for tests of what reads host machines: it serves
// objects of hosts.nstance.dev over HTTP, in lists, alone and in watches, takes operations, and can refuse.
package kubetest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Server is an API server. New makes one; it is safe for concurrent use.
type Server struct {
	url string

	mu       sync.Mutex
	revision int
	objects  map[string]client.Object // by resource/name
	watches  map[*watching]bool
	refuse   int
	writes   []string
	opened   chan struct{}
}

type watching struct {
	resource string
	matches  func(client.Object) bool
	events   chan event
	end      chan struct{}
}

type event struct {
	Type   string `json:"type"`
	Object any    `json:"object"`
}

// New starts a server, which ends with the test.
func New(t *testing.T) *Server {
	t.Helper()
	s := &Server{objects: map[string]client.Object{}, watches: map[*watching]bool{}, opened: make(chan struct{}, 100)}
	h := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() { s.EndWatches(); h.Close() })
	s.url = h.URL
	return s
}

// Kubeconfig writes a file that leads to the server, with contexts one and two.
func (s *Server) Kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: one\nclusters: [{name: c, cluster: {server: " + s.url + "}}]\n" +
		"users: [{name: u, user: {token: secret}}]\ncontexts: [{name: one, context: {cluster: c, user: u}}, {name: two, context: {cluster: c, user: u}}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func resourceOf(o client.Object) (resource, kind string) {
	switch o.(type) {
	case *hostsv1.HostMachine:
		return "hostmachines", hostsv1.KindHostMachine
	case *hostsv1.MachineConfiguration:
		return "machineconfigurations", hostsv1.KindMachineConfiguration
	case *hostsv1.MachineOperation:
		return "machineoperations", hostsv1.KindMachineOperation
	case *corev1.Node:
		return "nodes", "Node"
	default:
		return "machineconfigurationversions", hostsv1.KindMachineConfigurationVersion
	}
}

// Put stores an object, and tells those who watch.
func (s *Server) Put(o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource, kind := resourceOf(o)
	s.revision++
	o.SetResourceVersion(strconv.Itoa(s.revision))
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "test"}})
	version := hostsv1.GroupVersion
	if kind == "Node" {
		version = corev1.SchemeGroupVersion
	}
	o.GetObjectKind().SetGroupVersionKind(version.WithKind(kind))
	what := "ADDED"
	if s.objects[resource+"/"+o.GetName()] != nil {
		what = "MODIFIED"
	}
	s.objects[resource+"/"+o.GetName()] = o
	s.tell(resource, what, o)
}

// Delete removes an object, and tells those who watch.
func (s *Server) Delete(o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource, _ := resourceOf(o)
	s.revision++
	delete(s.objects, resource+"/"+o.GetName())
	s.tell(resource, "DELETED", o)
}

func (s *Server) tell(resource, what string, o client.Object) {
	for w := range s.watches {
		if w.resource == resource && w.matches(o) {
			w.events <- event{what, o.DeepCopyObject()}
		}
	}
}

// Refuse makes the server answer every request with a code of HTTP; 0: no more.
func (s *Server) Refuse(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = code
}

// Writes are the requests that were no reads, in order.
func (s *Server) Writes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.writes)
}

// EndWatches ends all watches.
func (s *Server) EndWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		close(w.end)
	}
	clear(s.watches)
}

// Opened is sent to whenever a watch has begun: what happens from then on it sees.
func (s *Server) Opened() <-chan struct{} { return s.opened }

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutPrefix(r.URL.Path, "/apis/"+hostsv1.GroupVersion.String()+"/")
	if !ok {
		path, ok = strings.CutPrefix(r.URL.Path, "/api/v1/")
	}
	s.mu.Lock()
	refuse := s.refuse
	s.mu.Unlock()
	if !ok {
		refuse = http.StatusNotFound
	}
	if refuse != 0 {
		answer(w, refuse, status(refuse, ""))
		return
	}
	resource, name, single := strings.Cut(path, "/")
	if r.Method != http.MethodGet {
		s.mu.Lock()
		s.writes = append(s.writes, r.Method+" "+path)
		s.mu.Unlock()
	}
	switch r.Method {
	case http.MethodPost:
		s.create(w, r)
		return
	case http.MethodDelete:
		s.remove(w, r, resource+"/"+name)
		return
	}
	query := r.URL.Query()
	if !single {
		selector, err := labels.Parse(query.Get("labelSelector"))
		if err != nil {
			answer(w, http.StatusBadRequest, status(http.StatusBadRequest, ""))
			return
		}
		only := strings.TrimPrefix(query.Get("fieldSelector"), "metadata.name=")
		matches := func(o client.Object) bool {
			return selector.Matches(labels.Set(o.GetLabels())) && (only == "" || o.GetName() == only)
		}
		if query.Get("watch") != "" {
			s.watch(w, r, &watching{resource: resource, matches: matches, events: make(chan event, 100), end: make(chan struct{})})
			return
		}
		s.list(w, resource, matches)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[resource+"/"+name]; o != nil {
		answer(w, http.StatusOK, o)
		return
	}
	answer(w, http.StatusNotFound, status(http.StatusNotFound, name))
}

// create stores an operation, which is all that is made through the API.
func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	o := &hostsv1.MachineOperation{}
	if err := json.NewDecoder(r.Body).Decode(o); err != nil {
		answer(w, http.StatusBadRequest, status(http.StatusBadRequest, ""))
		return
	}
	if o.Name == "" {
		o.Name = o.GenerateName + "00001"
	}
	o.UID = types.UID("uid-" + o.Name)
	if r.URL.Query().Get("dryRun") != metav1.DryRunAll {
		s.Put(o)
	}
	answer(w, http.StatusCreated, o)
}

// remove deletes an object that has not changed since it was read.
func (s *Server) remove(w http.ResponseWriter, r *http.Request, key string) {
	var options metav1.DeleteOptions
	err := json.NewDecoder(r.Body).Decode(&options)
	s.mu.Lock()
	o := s.objects[key]
	s.mu.Unlock()
	switch p := options.Preconditions; {
	case err != nil:
		answer(w, http.StatusBadRequest, status(http.StatusBadRequest, ""))
	case o == nil:
		answer(w, http.StatusNotFound, status(http.StatusNotFound, key))
	case p != nil && (p.UID != nil && *p.UID != o.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != o.GetResourceVersion()):
		answer(w, http.StatusConflict, status(http.StatusConflict, ""))
	default:
		if !slices.Contains(options.DryRun, metav1.DryRunAll) {
			s.Delete(o)
		}
		answer(w, http.StatusOK, metav1.Status{Status: metav1.StatusSuccess})
	}
}

func (s *Server) list(w http.ResponseWriter, resource string, matches func(client.Object) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := []client.Object{}
	for key, o := range s.objects {
		if strings.HasPrefix(key, resource+"/") && matches(o) {
			items = append(items, o)
		}
	}
	slices.SortFunc(items, func(a, b client.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	answer(w, http.StatusOK, map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.revision)}, "items": items})
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, this *watching) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	_ = flush.Flush() // a client that is gone is seen below
	s.mu.Lock()
	s.watches[this] = true
	s.mu.Unlock()
	s.opened <- struct{}{}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, this)
	}()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-this.end:
			return
		case e := <-this.events:
			if json.NewEncoder(w).Encode(e) != nil || flush.Flush() != nil {
				return
			}
		}
	}
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client sees that it breaks
}

func status(code int, name string) metav1.Status {
	reasons := map[int]metav1.StatusReason{
		http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusUnauthorized: metav1.StatusReasonUnauthorized,
		http.StatusConflict: metav1.StatusReasonConflict,
	}
	text := http.StatusText(code)
	if name != "" {
		text = name + " not found"
	}
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reasons[code], Message: text,
		Details: &metav1.StatusDetails{Name: name},
	}
}
