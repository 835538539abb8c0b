package awsssm

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// noticeRepeats sets repeated when the SDK sends a request again: only then can
// "exists already" be about an earlier try of the same call.
func noticeRepeats(repeated *bool) func(*ssm.Options) {
	return func(o *ssm.Options) {
		if inner, ok := o.Retryer.(aws.RetryerV2); ok {
			o.Retryer = noticing{inner, repeated}
		}
	}
}

type noticing struct {
	aws.RetryerV2
	repeated *bool
}

// RetryDelay is asked for before each repetition.
func (n noticing) RetryDelay(attempt int, err error) (time.Duration, error) {
	*n.repeated = true
	return n.RetryerV2.RetryDelay(attempt, err)
}
