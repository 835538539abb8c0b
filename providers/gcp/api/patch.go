package api

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/googleapi"
	"google.golang.org/protobuf/encoding/protojson"
)

// Patch sends a call that begins an operation. The error is the HTTP client's or the API's, for
// [Fail] to interpret.
func (a *Client) Patch(ctx context.Context, target string, body []byte) (*computepb.Operation, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if err := googleapi.CheckResponse(resp); err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	running := new(computepb.Operation)
	return running, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(answer, running)
}
