package kube

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// Request is one request to the API server, as its audit log has it.
type Request struct {
	Time   time.Time // when it came
	User   string
	Groups []string

	// Verb is what RBAC calls it: get, list, watch, create, update, patch, delete,
	// deletecollection; for a path that is no resource, the HTTP method in lower case.
	Verb string

	// Group, Resource and Subresource are empty for a path that is no resource; Group
	// is so for the core group as well.
	Group, Resource, Subresource string
	Namespace, Name              string

	URI  string
	Code int // HTTP status of the answer

	// Unauthorized means that RBAC did not let the user do it. A policy, a quota or a
	// namespace that ends refuse with the same status what the user may do.
	Unauthorized bool
}

// Audit returns all requests that have been answered, and the watches that have been
// granted, in the order in which that was written down. A request is written down when
// its answer has been made: one that has only just returned may still be missing. Nobody
// changes what is returned.
func (c *Cluster) Audit() ([]Request, error) {
	f, err := os.Open(c.auditLog)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c.audit.mu.Lock()
	defer c.audit.mu.Unlock()
	if _, err := f.Seek(c.audit.offset, io.SeekStart); err != nil {
		return nil, err
	}
	if err := c.audit.read(f); err != nil {
		return nil, err
	}
	return slices.Clip(c.audit.requests), nil
}

// auditEvent is what we use of an Event of audit.k8s.io/v1.
type auditEvent struct {
	AuditID string `json:"auditID"`
	Verb    string `json:"verb"`
	URI     string `json:"requestURI"`
	User    struct {
		Username string   `json:"username"`
		Groups   []string `json:"groups"`
	} `json:"user"`
	ObjectRef struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received    time.Time         `json:"requestReceivedTimestamp"`
	Annotations map[string]string `json:"annotations"`
}

// audit is what has been read of an audit log.
type audit struct {
	mu       sync.Mutex // guards all of it
	offset   int64      // where the next line begins
	lines    int        // that were read
	seen     map[string]bool
	requests []Request
}

// read reads on in an audit log, one JSON object a line. A watch is there when it begins
// and when it ends, and counts once. A last line that is not complete is still being
// written.
func (a *audit) read(log io.Reader) error {
	if a.seen == nil {
		a.seen = map[string]bool{}
	}
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("audit log, line %d: %w", a.lines+1, err)
		}
		a.lines++
		a.offset += int64(len(line))
		if a.seen[e.AuditID] {
			continue
		}
		a.seen[e.AuditID] = true
		a.requests = append(a.requests, Request{
			Time: e.Received, User: e.User.Username, Groups: e.User.Groups, Verb: e.Verb,
			Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
			Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
			URI: e.URI, Code: e.ResponseStatus.Code,
			Unauthorized: e.Annotations["authorization.k8s.io/decision"] == "forbid",
		})
	}
}
