package awsfake

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"nstance.dev/server/driver/drivertest/wire"
)

func (c *Cloud) imds(id string) *imds.Client {
	return imds.New(imds.Options{
		HTTPClient: &http.Client{Transport: wire.RoundTripper(c.Metadata(id))}, Retryer: aws.NopRetryer{},
		EnableFallback: aws.FalseTernary,
	})
}

func learns(ctx context.Context, of *imds.Client, path string) (string, error) {
	out, err := of.GetMetadata(ctx, &imds.GetMetadataInput{Path: path})
	if err != nil {
		return "", err
	}
	value, err := io.ReadAll(out.Content)
	return string(value), errors.Join(err, out.Content.Close())
}

func status(err error) int {
	if answer, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return answer.HTTPStatusCode()
	}
	return 0
}

func TestMetadata(t *testing.T) {
	c := New(Options{})
	id := *run(t, c.client(), launchOf("one")).InstanceId
	of := c.imds(id)
	for path, want := range map[string]string{
		"instance-id": id, "instance-type": "t4g.small", "placement/availability-zone": "us-east-1a", "placement/region": "us-east-1",
		"local-ipv4": "10.0.0.4", "instance-life-cycle": "on-demand", "tags/instance/of": "one",
	} {
		if got, err := learns(t.Context(), of, path); got != want || err != nil {
			t.Errorf("%s is %q, %v; want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"spot/instance-action", "tags/instance/other", "no/such/path"} {
		if got, err := learns(t.Context(), of, path); status(err) != http.StatusNotFound {
			t.Errorf("%s is %q, %v", path, got, err)
		}
	}
	document, err := of.GetInstanceIdentityDocument(t.Context(), nil)
	if err != nil || document.InstanceID != id || document.Region != "us-east-1" || document.AccountID != "123456789012" {
		t.Errorf("the identity document is %+v, %v", document, err)
	}
	data, err := of.GetUserData(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(data.Content); string(text) != "#!/bin/sh\n" || err != nil {
		t.Errorf("the user data is %q, %v", text, err)
	}
}

func TestMetadataNeedsASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{})
		service := c.Metadata(c.Plant(nil))
		call := func(method, path string, header ...string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
			for i := 0; i < len(header); i += 2 {
				r.Header.Set(header[i], header[i+1])
			}
			w := httptest.NewRecorder()
			service.ServeHTTP(w, r)
			return w
		}
		const token, about = "/latest/api/token", "/latest/meta-data/instance-id"
		session := call("PUT", token, sessionTTL, "60").Body.String()
		for what, got := range map[string]struct{ status, want int }{
			"no session":            {call("GET", about).Code, 401},
			"a guessed session":     {call("GET", about, sessionToken, "guess").Code, 401},
			"the session":           {call("GET", about, sessionToken, session).Code, 200},
			"a session without end": {call("PUT", token).Code, 400},
			"too long a session":    {call("PUT", token, sessionTTL, "21601").Code, 400},
			"a session by GET":      {call("GET", token, sessionTTL, "60").Code, 405},
			"through a proxy":       {call("PUT", token, sessionTTL, "60", "X-Forwarded-For", "10.0.0.9").Code, 403},
			"a write":               {call("POST", about, sessionToken, session).Code, 405},
		} {
			if got.status != got.want {
				t.Errorf("%s: %d, want %d", what, got.status, got.want)
			}
		}
		time.Sleep(time.Minute)
		if got := call("GET", about, sessionToken, session).Code; got != 401 {
			t.Errorf("after its end the session gives %d", got)
		}
	})
}

func TestInterruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stops := make(chan time.Time, 1)
		c := New(Options{Run: func(Machine) (func(), error) { return func() { stops <- time.Now() }, nil }})
		defer c.Close()
		vm := c.client()
		id := *run(t, vm, launchOf("one", func(in *ec2.RunInstancesInput) {
			in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeSpot}
		})).InstanceId
		if c.Interrupt(c.Plant(nil)) || !c.Interrupt(id) {
			t.Error("spot machines are interrupted, and no other ones")
		}
		end := time.Now().Add(2 * time.Minute)
		var notice struct {
			Action string
			Time   time.Time
		}
		text, err := learns(t.Context(), c.imds(id), "spot/instance-action")
		if err != nil || json.Unmarshal([]byte(text), &notice) != nil || notice.Action != "terminate" || !notice.Time.Equal(end) {
			t.Errorf("the notice is %s, %v; want the end at %v", text, err, end)
		}
		time.Sleep(2*time.Minute - time.Second)
		if got := described(t, vm, only(id))[id].State.Name; got != running {
			t.Errorf("before its end it is %s", got)
		}
		time.Sleep(time.Second)
		if got := described(t, vm, only(id))[id]; got.State.Name != terminated || *got.StateReason.Code != "Server.SpotInstanceTermination" {
			t.Errorf("after its end it is %s: %+v", got.State.Name, got.StateReason)
		}
		if stopped := <-stops; !stopped.Equal(end) {
			t.Errorf("its guest was stopped at %v, want %v", stopped, end)
		}
	})
}
