package proxmoxfake

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

const root = "/api2/json"

// route is one verb of the API.
type route struct {
	op     string   // as the API viewer has it; also the pattern
	schema schema   // what it takes beside what stands in the path
	grants []string // privileges, each of which suffices; empty: any token may
	forks  string   // the type of the task that may lack room for its work; empty: none
	do     func(*Cloud, *request) (any, error)
}

// request is one call on its way.
type request struct {
	now    time.Time
	user   string // user@realm!token
	token  Token
	node   string // of the path; empty: none
	vmid   int    // of the path; 0: none
	rest   map[string]string
	params map[string]string
	upload *upload
}

// may reports whether the caller has a privilege.
func (r *request) may(privilege string) bool {
	return r.token.Privileges == nil || slices.Contains(r.token.Privileges, privilege)
}

// need returns an error unless the caller has a privilege.
func (r *request) need(path, privilege string) error {
	paths, narrowed := r.token.Within[privilege]
	if r.may(privilege) && (!narrowed || below(path, paths)) {
		return nil
	}
	return forbidden(path, privilege)
}

func (r *request) flag(name string) bool {
	on, _ := truth(r.params[name])
	return on
}

// path names what the call is about, for refusals.
func (r *request) path() string {
	switch {
	case r.vmid > 0:
		return fmt.Sprintf("/vms/%d", r.vmid)
	case r.rest["storage"] != "":
		return "/storage/" + r.rest["storage"]
	case r.node != "":
		return "/nodes/" + r.node
	}
	return "/"
}

func (c *Cloud) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, group := range [][]route{clusterRoutes, machineRoutes, powerRoutes, storageRoutes, taskRoutes} {
		for _, route := range group {
			method, path, _ := strings.Cut(route.op, " ")
			pattern := method + " " + root + strings.Replace(path, "{volume}", "{volume...}", 1)
			mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, route) })
		}
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, root)
		refusal(&failure{status: http.StatusNotImplemented, reason: fmt.Sprintf("Method '%s %s' not implemented", r.Method, path)})(w)
	})
	return mux
}

// serve carries out one call behind the gate.
func (c *Cloud) serve(w http.ResponseWriter, in *http.Request, route route) {
	r := &request{node: in.PathValue("node"), rest: map[string]string{}}
	for _, name := range []string{"storage", "volume", "upid", "poolid"} {
		r.rest[name] = in.PathValue(name)
	}
	vmid, err := strconv.Atoi(in.PathValue("vmid"))
	if in.PathValue("vmid") != "" && err != nil {
		refusal(badParam("vmid", "type check ('integer') failed - got '%s'", in.PathValue("vmid")))(w)
		return
	}
	r.vmid = vmid
	if strings.HasPrefix(in.Header.Get("Content-Type"), "multipart/form-data") {
		r.upload, r.params, err = readUpload(in)
	} else {
		r.params, err = read(in)
	}
	if err != nil {
		refusal(err)(w)
		return
	}
	refuse := func(f wire.Fault) wire.Answer { return c.refuse(route, r, f) }
	act := func() wire.Answer { return answer(c.act(in, route, r)) }
	c.Gate.Serve(w, in, route.op, c.about(r), refuse, act)
}

// about is the key of a call.
func (c *Cloud) about(r *request) string {
	switch {
	case r.upload != nil:
		return r.upload.name
	case r.params["newid"] != "":
		return r.params["name"]
	case r.vmid > 0:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.named(r.vmid)
	case r.rest["volume"] != "":
		return r.rest["volume"]
	}
	return r.rest["upid"]
}

// act does what the call says, if the caller may and the node is there.
func (c *Cloud) act(in *http.Request, route route, r *request) (data any, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.now = c.now()
	defer c.arm()
	if err := c.authenticate(in, r); err != nil {
		return nil, err
	}
	if len(route.grants) > 0 && !slices.ContainsFunc(route.grants, r.may) {
		return nil, forbidden(r.path(), strings.Join(route.grants, "|"))
	}
	if err := c.reach(r.node); err != nil {
		return nil, err
	}
	if err := route.schema.check(r.params); err != nil {
		return nil, err
	}
	if in.Method != http.MethodGet && !c.quorate() {
		return nil, die("cluster not ready - no quorum?")
	}
	return route.do(c, r)
}

// authenticate finds the caller's token.
func (c *Cloud) authenticate(in *http.Request, r *request) error {
	credentials, ok := strings.CutPrefix(in.Header.Get("Authorization"), "PVEAPIToken=")
	if !ok {
		return &failure{status: http.StatusUnauthorized, reason: "No ticket"}
	}
	id, secret, _ := strings.Cut(credentials, "=")
	for _, t := range c.opts.Tokens {
		if t.ID == id {
			if t.Secret != secret {
				return &failure{status: http.StatusUnauthorized, reason: "invalid token value!"}
			}
			r.user, r.token = id, t
			return nil
		}
	}
	user, name, _ := strings.Cut(id, "!")
	return &failure{status: http.StatusUnauthorized, reason: fmt.Sprintf("no such token '%s' for user '%s'", name, user)}
}

// reach returns the error of a call about a node that cannot be asked.
func (c *Cloud) reach(name string) error {
	if name == "" {
		return nil
	}
	n := c.nodes[name]
	switch {
	case n == nil:
		return die("hostname lookup '%s' failed - failed to get address info for: %s: Name or service not known", name, name)
	case !n.online:
		return &failure{status: 595, reason: "No route to host"}
	}
	return nil
}

// quorate reports whether most nodes are there. Without them nothing changes.
func (c *Cloud) quorate() bool {
	online := 0
	for _, n := range c.nodes {
		online += bit(n.online)
	}
	return online*2 > len(c.nodes)
}

// refuse answers a call that ends with a fault. A full storage shows in a task, where
// the call has one.
func (c *Cloud) refuse(route route, r *request, f wire.Fault) wire.Answer {
	failed := inWords(f.Kind, r.node, r.vmid)
	if route.forks == "" || f.After || f.Kind != driver.Capacity && f.Kind != driver.Quota {
		return refusal(failed)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.now = c.now()
	defer c.arm()
	upid := c.fork(r, route.forks, strconv.Itoa(r.vmid), "", func(t *task, now time.Time) { t.fail(now, failed) })
	return answer(upid, nil)
}
