package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"nstance.dev/server/outbound/outboundtest"
)

// TestS2_ConnectionsAreBounded: nothing that a leader has written waits in its machine for long.
func TestS2_ConnectionsAreBounded(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
	client, err := Connect(t.Context(), Options{Region: "us-east-1", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	outboundtest.Bounded(t, func(ctx context.Context) {
		_, _ = client.EC2.RunInstances(ctx, &ec2.RunInstancesInput{MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1)})
	})
}
