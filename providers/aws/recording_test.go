package aws_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nstance.dev/providers/aws/awsfake"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// recording keeps the calls that got an answer, as they were on the wire.
type recording struct {
	mu    sync.Mutex
	calls []recorded
}

// recorded is a call and its answer.
type recorded struct {
	query  url.Values
	status int
	header http.Header
	answer []byte
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// of records what goes through a transport to the query APIs.
func (rec *recording) of(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		query, err := sent(r)
		if err != nil {
			return nil, err
		}
		response, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			return nil, err
		}
		response.Body = io.NopCloser(bytes.NewReader(answer))
		rec.mu.Lock()
		defer rec.mu.Unlock()
		rec.calls = append(rec.calls, recorded{query, response.StatusCode, response.Header.Clone(), answer})
		return response, nil
	})
}

// sent returns the query in the body of a request, which can be read again.
func sent(r *http.Request) (url.Values, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return url.ParseQuery(string(body))
}

// response is the recorded answer once more.
func (c recorded) response(r *http.Request) *http.Response {
	return &http.Response{
		StatusCode: c.status, Header: c.header.Clone(), Request: r,
		Body: io.NopCloser(bytes.NewReader(c.answer)), ContentLength: int64(len(c.answer)),
	}
}

// check makes the recorded call once more by the unmodified SDK, and gives it the
// recorded answer. The SDK must find the request complete and write it as it was
// recorded; and it must read all that the answer says. It reports whether that is
// anything: a refusal and an empty list are not, and a success that has no more to say is.
func (c recorded) check(ctx context.Context) (full bool, err error) {
	var repeated url.Values
	output, err := awsfake.Repeat(ctx, region, c.query, roundTripper(func(r *http.Request) (*http.Response, error) {
		var err error
		repeated, err = sent(r)
		return c.response(r), err
	}))
	if repeated == nil {
		return false, fmt.Errorf("the SDK does not send it: %w", err)
	}
	if diff := cmp.Diff(c.query, repeated); diff != "" {
		return false, fmt.Errorf("the SDK sends it otherwise (-recorded +SDK):\n%s", diff)
	}
	if c.status != http.StatusOK {
		return false, c.checkRefusal(err)
	}
	if err != nil {
		return false, fmt.Errorf("the SDK cannot read the answer: %w", err)
	}
	said, err := textsOf(c.answer)
	if err != nil {
		return false, err
	}
	read := leavesOf(reflect.ValueOf(output))
	slices.Sort(said)
	slices.Sort(read)
	if diff := cmp.Diff(said, read, cmpopts.EquateEmpty()); diff != "" {
		return false, fmt.Errorf("the SDK does not read what the answer says (-answer +SDK):\n%s", diff)
	}
	const noMembers = 2 // but ResultMetadata and a mark, which are the SDK's own
	return len(read) > 0 || reflect.TypeOf(output).Elem().NumField() == noMembers, nil
}

// checkRefusal checks that the SDK found the code and the message of an error.
func (c recorded) checkRefusal(err error) error {
	refusal, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return fmt.Errorf("status %d, and the SDK finds no error of the API: %w", c.status, err)
	}
	for _, text := range []string{"<Code>" + refusal.ErrorCode() + "</Code>", "<Message>"} {
		if !bytes.Contains(c.answer, []byte(text)) || refusal.ErrorMessage() == "" {
			return fmt.Errorf("the SDK reads the code %q and the message %q", refusal.ErrorCode(), refusal.ErrorMessage())
		}
	}
	return nil
}

// textsOf returns the text of each element of an answer, less those that the model
// leaves out: the request's id, and the return that says of a success that it is one.
func textsOf(answer []byte) ([]string, error) {
	var texts []string
	var text string
	d := xml.NewDecoder(bytes.NewReader(answer))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			text = ""
		case xml.CharData:
			text += string(token)
		case xml.EndElement:
			if name := token.Name.Local; text != "" && name != "return" && !strings.EqualFold(name, "requestId") {
				texts = append(texts, text)
			}
			text = ""
		}
	}
}

// leavesOf returns all texts, numbers, truths and times in a value of the SDK's, as they
// are written in an answer.
func leavesOf(v reflect.Value) []string {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		return []string{v.Interface().(time.Time).UTC().Format("2006-01-02T15:04:05.000Z")}
	case v.Kind() == reflect.Pointer && v.IsNil(), v.Kind() == reflect.String && v.Len() == 0:
		return nil
	case v.Kind() == reflect.Pointer:
		return leavesOf(v.Elem())
	case v.Kind() == reflect.Slice:
		var all []string
		for i := range v.Len() {
			all = append(all, leavesOf(v.Index(i))...)
		}
		return all
	case v.Kind() == reflect.Struct:
		var all []string
		for field, value := range v.Fields() {
			if field.IsExported() {
				all = append(all, leavesOf(value)...)
			}
		}
		return all
	default:
		return []string{fmt.Sprint(v)}
	}
}

// checkRecordings checks the calls of all worlds. Each of the actions must have been
// answered with something once.
func checkRecordings(t *testing.T, worlds []*world, actions []string) {
	t.Helper()
	answered, failed := map[string]bool{}, map[string]bool{}
	for _, w := range worlds {
		for _, c := range w.record.calls {
			action := c.query.Get("Action")
			full, err := c.check(t.Context())
			if err != nil && !failed[action] { // the others will say the same
				failed[action] = true
				t.Errorf("%v\nrequest: %s\nanswer: %d %s", err, c.query.Encode(), c.status, c.answer)
			}
			answered[action] = answered[action] || full
		}
	}
	for _, action := range slices.Compact(slices.Sorted(slices.Values(actions))) {
		if !answered[action] {
			t.Errorf("no answer to %s was recorded that the SDK reads anything in", action)
		}
	}
}

// TestBrokenRecordingsAreFound breaks calls in ways that the driver or the fake could.
func TestBrokenRecordingsAreFound(t *testing.T) {
	calls := map[string]recorded{}
	inWorld(t, awsfake.Options{}, func(t *testing.T, w *world) {
		d := w.driver(t, "")
		m, err := d.Create(t.Context(), request(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.List(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
		ref := driver.Ref{InstanceID: m.InstanceID, ProviderID: m.ProviderID}
		if err := d.Power(t.Context(), ref, driver.PowerReboot); err != nil {
			t.Fatal(err)
		}
		for _, c := range w.record.calls {
			calls[c.query.Get("Action")] = c
		}
		w.Gate().SetFaults(wire.Always("RunInstances", wire.Fault{Kind: driver.Capacity}))
		if _, err := d.Create(t.Context(), request(t)); err == nil {
			t.Fatal("no error where there is no room")
		}
		calls["refused"] = w.record.calls[len(w.record.calls)-1]
	})
	query := func(change func(url.Values)) func(*recorded) {
		return func(c *recorded) { change(c.query) }
	}
	answer := func(from, to string) func(*recorded) {
		return func(c *recorded) {
			if !bytes.Contains(c.answer, []byte(from)) {
				t.Fatalf("there is no %q in %s", from, c.answer)
			}
			c.answer = bytes.ReplaceAll(c.answer, []byte(from), []byte(to))
		}
	}
	for _, test := range []struct {
		name, call string
		change     func(*recorded)
		err        string // "": nothing is wrong
	}{
		{"a launch", "RunInstances", func(*recorded) {}, ""},
		{"a listing", "DescribeInstances", func(*recorded) {}, ""},
		{"an answer without a result", "RebootInstances", func(*recorded) {}, ""},
		{"a refusal", "refused", func(*recorded) {}, ""},
		{"no action", "RunInstances", query(func(q url.Values) { q.Set("Action", "LaunchInstances") }), "no known action"},
		{"another version", "RunInstances", query(func(q url.Values) { q.Set("Version", "2010-01-01") }), "no known action"},
		{"a required parameter is missing", "RunInstances", query(func(q url.Values) { q.Del("MinCount") }), "missing required field, RunInstancesInput.MinCount"},
		{"a required list is missing", "RebootInstances", query(func(q url.Values) { q.Del("InstanceId.1") }), "missing required field, RebootInstancesInput.InstanceIds"},
		{"an unknown parameter", "RunInstances", query(func(q url.Values) { q.Set("InstanceTypes", "t4g.small") }), "InstanceTypes is not recognized"},
		{"a value of another type", "RunInstances", query(func(q url.Values) { q.Set("MinCount", "one") }), "Invalid value 'one'"},
		{"a number that the SDK writes otherwise", "RunInstances", query(func(q url.Values) { q.Set("MinCount", "01") }), "sends it otherwise"},
		{"an answer that is cut", "RunInstances", func(c *recorded) { c.answer = c.answer[:len(c.answer)/2] }, "cannot read the answer"},
		{"an element that does not exist", "RunInstances", answer("instanceType>", "typeOfInstance>"), "does not read what the answer says"},
		{"an element in the wrong place", "DescribeInstances", answer("reservationSet>", "reservations>"), "does not read what the answer says"},
		{"a time that is none", "RunInstances", answer("<launchTime>2", "<launchTime>x2"), "cannot read the answer"},
		{"a number that is none", "RunInstances", answer("<code>0", "<code>zero"), "cannot read the answer"},
		{"a refusal in another form", "refused", answer("Errors>", "Faults>"), "the SDK reads the code"},
		{"a refusal without a message", "refused", answer("Message>", "Text>"), "the SDK reads the code"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, ok := calls[test.call]
			if !ok {
				t.Fatalf("%s was not recorded", test.call)
			}
			c.query, c.answer = maps.Clone(c.query), bytes.Clone(c.answer)
			test.change(&c)
			full, err := c.check(t.Context())
			if test.err == "" && err == nil && full == (test.call != "refused") {
				return
			}
			if err == nil || test.err == "" || !strings.Contains(err.Error(), test.err) {
				t.Errorf("it reads something: %t; %v, want %q\n%s", full, err, test.err, c.answer)
			}
		})
	}
}
