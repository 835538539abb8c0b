package gcpfake

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The metadata server's protocol.
// https://docs.cloud.google.com/compute/docs/metadata/querying-metadata
const (
	metadataRoot   = "/computeMetadata/v1/"
	flavorHeader   = "Metadata-Flavor"
	flavor         = "Google"
	projectNumber  = "123456789012"
	defaultTimeout = 24 * time.Hour // of a wait for a change
)

// Metadata is the metadata server of the machine of a name, in whatever zone: what
// the machine sees at metadata.google.internal. It answers as long as the machine
// runs, and also gives out tokens for the API.
func (c *Cloud) Metadata(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "Metadata Server for VM")
		w.Header().Set(flavorHeader, flavor)
		switch {
		case r.Method != http.MethodGet:
			http.Error(w, "only GET is known here", http.StatusMethodNotAllowed)
		case r.URL.Path == "/":
			fmt.Fprintln(w, "computeMetadata/")
		case r.Header.Get(flavorHeader) != flavor || r.Header.Get("X-Forwarded-For") != "":
			http.Error(w, "Missing Metadata-Flavor:Google header, or forwarded by a proxy.", http.StatusForbidden)
		case !strings.HasPrefix(r.URL.Path, metadataRoot):
			http.NotFound(w, r)
		default:
			c.describe(w, r, name)
		}
	})
}

// describe answers a question for one value, at once or when it changes.
func (c *Cloud) describe(w http.ResponseWriter, r *http.Request, name string) {
	where := strings.TrimPrefix(r.URL.Path, metadataRoot)
	if where == "instance/service-accounts/default/token" {
		c.writeToken(w)
		return
	}
	value, found := c.watch(r, name, where)
	switch {
	case !found && !c.runs(name):
		http.Error(w, "the machine does not run", http.StatusServiceUnavailable)
	case !found:
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", "application/text")
		w.Header().Set("ETag", etag(value))
		fmt.Fprint(w, value)
	}
}

// etag changes with the value.
func etag(value string) string { return strings.TrimRight(fingerprint(value), "=") }

func (c *Cloud) writeToken(w http.ResponseWriter) {
	token, life := c.Token()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": token, "expires_in": int(life.Seconds()), "token_type": "Bearer"})
}

func (c *Cloud) runs(name string) bool {
	m, ok := c.Machine(name)
	return ok && status(m.Status) == running
}

// watch returns a value; with wait_for_change when it is another one than that of
// last_etag, or than now, or when timeout_sec have passed.
func (c *Cloud) watch(r *http.Request, name, where string) (value string, found bool) {
	query := r.URL.Query()
	last, waits := query.Get("last_etag"), query.Get("wait_for_change") == "true"
	timeout := defaultTimeout
	if s, err := strconv.Atoi(query.Get("timeout_sec")); err == nil && s > 0 {
		timeout = time.Duration(s) * time.Second
	}
	enough := time.NewTimer(timeout)
	defer enough.Stop()
	for {
		value, found, changed := c.look(name, where)
		if last == "" {
			last = etag(value)
		}
		if !waits || !found || etag(value) != last {
			return value, found
		}
		select {
		case <-changed:
		case <-enough.C:
			return value, found
		case <-r.Context().Done():
			return value, found
		}
	}
}

// look reads a value, and returns a channel that is closed at the cloud's next change.
func (c *Cloud) look(name, where string) (value string, found bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	for _, i := range c.instances {
		if i.pb.GetName() == name && i.is(running) {
			value, found = c.metadata(i, where)
		}
	}
	return value, found, c.changed
}

// metadata is what a machine's metadata server says at a path.
func (c *Cloud) metadata(i *instance, where string) (string, bool) {
	m := c.machine(i)
	values := map[string]string{
		"":                                          "instance/\nproject/\n",
		"universe/universe-domain":                  "googleapis.com",
		"project/project-id":                        c.opts.Project,
		"project/numeric-project-id":                projectNumber,
		"instance/id":                               strconv.FormatUint(m.ID, 10),
		"instance/name":                             m.Name,
		"instance/hostname":                         m.Name + "." + m.Zone + ".c." + c.opts.Project + ".internal",
		"instance/zone":                             "projects/" + projectNumber + "/zones/" + m.Zone,
		"instance/machine-type":                     "projects/" + projectNumber + "/machineTypes/" + m.Type,
		"instance/preempted":                        upper(i.preempted),
		"instance/scheduling/preemptible":           upper(m.Spot),
		"instance/network-interfaces/0/ip":          m.IP.String(),
		"instance/network-interfaces/":              "0/\n",
		"instance/service-accounts/":                "default/\n" + c.user() + "/\n",
		"instance/service-accounts/default/":        "aliases\nemail\nidentity\nscopes\ntoken\n",
		"instance/attributes/":                      strings.Join(keys(m.Metadata), "\n"),
		"instance/service-accounts/default/email":   c.user(),
		"instance/service-accounts/default/scopes":  "https://www.googleapis.com/auth/cloud-platform\n",
		"instance/network-interfaces/0/ip-aliases/": numbered(m.Aliases),
	}
	if value, ok := values[where]; ok {
		return value, true
	}
	switch dir, last := path.Split(where); dir {
	case "instance/attributes/":
		value, ok := m.Metadata[last]
		return value, ok
	case "instance/network-interfaces/0/ip-aliases/":
		if n, err := strconv.Atoi(last); err == nil && n >= 0 && n < len(m.Aliases) {
			return m.Aliases[n], true
		}
	}
	return "", false
}

// upper writes a truth as the metadata server does.
func upper(is bool) string { return strings.ToUpper(strconv.FormatBool(is)) }

func keys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

// numbered lists the indexes of entries.
func numbered(entries []string) string {
	var b strings.Builder
	for n := range entries {
		fmt.Fprintln(&b, n)
	}
	return b.String()
}
