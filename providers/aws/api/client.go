// Package api signs in to AWS and says what the SDK's errors mean.
//
// A [Client] has the SDK's clients of the APIs that the driver calls, without the SDK's own
// retries but for one repetition where a connection broke. Their errors go through [Fail], which
// gives them their kind.
package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"syscall"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/smithy-go/logging"

	"nstance.dev/server/outbound"
)

// Options are how the APIs are reached. The zero value takes everything from the environment
// of the process, as the SDK does; but Log is required.
type Options struct {
	Region     string // of the account
	Profile    string // of the shared configuration files
	HTTPClient *http.Client
	Log        *slog.Logger // hears of doubts of the SDK
}

// Client is the APIs that the driver calls, for one account in one region. It is safe for
// concurrent use.
type Client struct {
	EC2  *ec2.Client
	ELB  *elasticloadbalancingv2.Client
	IMDS *imds.Client
}

// signIn is how long a start waits for credentials: the metadata service of a
// machine that has just booted may be slow.
const signIn = 15 * time.Second

// Connect makes the clients, by the SDK's usual files and variables of the
// environment, and makes sure that there are credentials to sign with.
func Connect(ctx context.Context, opts Options) (*Client, error) {
	cfg, err := config.LoadDefaultConfig(ctx, settings(opts)...)
	if err != nil {
		return nil, err
	}
	if cfg.Region == "" {
		return nil, errors.New("region: missing; set server.provider.region, or AWS_REGION")
	}
	cfg.Credentials = credentials{cfg.Credentials}
	ctx, cancel := context.WithTimeout(ctx, signIn)
	defer cancel()
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, fmt.Errorf("%w; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "+
			"name a profile (AWS_PROFILE, or profile in server.provider.options), or run on an instance that has a role", err)
	}
	return &Client{
		EC2: ec2.NewFromConfig(cfg, func(o *ec2.Options) {
			o.Retryer, o.RetryMaxAttempts = onlyBrokenConnections(), 0
		}),
		ELB: elasticloadbalancingv2.NewFromConfig(cfg, func(o *elasticloadbalancingv2.Options) {
			o.Retryer, o.RetryMaxAttempts = onlyBrokenConnections(), 0
		}),
		IMDS: imds.NewFromConfig(cfg),
	}, nil
}

func settings(opts Options) []func(*config.LoadOptions) error {
	var client config.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConnsPerHost = 64 // a burst of creates does without a handshake for each
	}).WithDialerOptions(outbound.Bound)
	if opts.HTTPClient != nil {
		client = opts.HTTPClient
	}
	with := []func(*config.LoadOptions) error{
		config.WithHTTPClient(client),
		config.WithLogger(logging.LoggerFunc(func(_ logging.Classification, format string, args ...any) {
			opts.Log.Warn("AWS SDK warning", "says", fmt.Sprintf(format, args...))
		})),
	}
	if opts.Region != "" {
		with = append(with, config.WithRegion(opts.Region))
	}
	if opts.Profile != "" {
		with = append(with, config.WithSharedConfigProfile(opts.Profile))
	}
	return with
}

// onlyBrokenConnections repeats a call once if the connection broke, which a kept
// one does when the other side closes it. Any other repetition is the server's to
// decide: it knows the token buckets. It is for the APIs that those are of: sources of
// credentials keep the SDK's own repetitions, for nobody else repeats them.
func onlyBrokenConnections() sdk.Retryer { return repeatIf(broken) }

func repeatIf(is retry.IsErrorRetryableFunc) sdk.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = 2
		o.MaxBackoff = 200 * time.Millisecond
		o.RateLimiter = ratelimit.None
		o.Retryables = []retry.IsErrorRetryable{retry.NoRetryCanceledError{}, is}
	})
}

// NoteBroken sets broke if a connection breaks during the call that it is an option of. A
// refusal of the repetition then says nothing of what the first try did.
func NoteBroken(broke *bool) func(*ec2.Options) {
	return func(o *ec2.Options) {
		o.Retryer = repeatIf(func(err error) sdk.Ternary {
			*broke = *broke || broken(err) == sdk.TrueTernary
			return broken(err)
		})
	}
}

func broken(err error) sdk.Ternary {
	for _, cause := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, cause) {
			return sdk.TrueTernary
		}
	}
	return sdk.FalseTernary
}

// credentials tell failures to sign from those of the call itself.
type credentials struct{ from sdk.CredentialsProvider }

// Retrieve implements [sdk.CredentialsProvider].
func (c credentials) Retrieve(ctx context.Context) (sdk.Credentials, error) {
	found, err := c.from.Retrieve(ctx)
	if err != nil {
		return sdk.Credentials{}, &credentialsError{err}
	}
	return found, nil
}
