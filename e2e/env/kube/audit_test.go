package kube

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAudit_readsOn(t *testing.T) {
	log := `{"stage":"ResponseComplete","auditID":"1","verb":"delete","requestURI":"/api/v1/nodes/n1","user":{"username":"alice","groups":["system:authenticated"]},"objectRef":{"resource":"nodes","name":"n1","apiVersion":"v1"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-02T03:04:05.000006Z"}
{"stage":"ResponseStarted","auditID":"2","verb":"watch","requestURI":"/apis/apps/v1/deployments?watch=true","user":{"username":"bob"},"objectRef":{"resource":"deployments","apiGroup":"apps","apiVersion":"v1"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-02T03:04:06Z"}
{"stage":"ResponseComplete","auditID":"2","verb":"watch","requestURI":"/apis/apps/v1/deployments?watch=true","user":{"username":"bob"},"objectRef":{"resource":"deployments","apiGroup":"apps","apiVersion":"v1"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-02T03:04:06Z"}
{"stage":"ResponseComplete","auditID":"3","verb":"create","requestURI":"/api/v1/namespaces/x/pods/p/eviction","user":{"username":"bob"},"objectRef":{"resource":"pods","subresource":"eviction","namespace":"x","name":"p","apiVersion":"v1"},"responseStatus":{"code":403},"requestReceivedTimestamp":"2026-01-02T03:04:07Z","annotations":{"authorization.k8s.io/decision":"forbid"}}
{"stage":"ResponseComplete","auditID":"4","verb":"get","requestURI":"/readyz","user":{"username":"system:anonymous"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-02T03:04:08Z"}
{"stage":"Resp`
	at := func(second int) time.Time { return time.Date(2026, 1, 2, 3, 4, second, 0, time.UTC) }
	want := []Request{
		{
			Time: at(5).Add(6 * time.Microsecond), User: "alice", Groups: []string{"system:authenticated"},
			Verb: "delete", Resource: "nodes", Name: "n1", URI: "/api/v1/nodes/n1", Code: 200,
		},
		{Time: at(6), User: "bob", Verb: "watch", Group: "apps", Resource: "deployments", URI: "/apis/apps/v1/deployments?watch=true", Code: 200},
		{
			Time: at(7), User: "bob", Verb: "create", Resource: "pods", Subresource: "eviction", Namespace: "x", Name: "p",
			URI: "/api/v1/namespaces/x/pods/p/eviction", Code: 403, Unauthorized: true,
		},
		{Time: at(8), User: "system:anonymous", Verb: "get", URI: "/readyz", Code: 200},
	}
	var a audit
	// As it grows: the first time a line and a half are there.
	for _, length := range []int64{int64(strings.Index(log, `"auditID":"2"`)), int64(len(log))} {
		if err := a.read(io.NewSectionReader(strings.NewReader(log), a.offset, length-a.offset)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, a.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestAudit_namesTheLineThatItCannotRead(t *testing.T) {
	var a audit
	err := a.read(strings.NewReader("{\"auditID\":\"1\"}\nnonsense\n"))
	if err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("error %v, want one that names line 2", err)
	}
}
