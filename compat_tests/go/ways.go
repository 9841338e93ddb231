// Ways to reach a secured broker: what a client trusts, what it shows, and as whom it logs in.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/IBM/sarama"
)

// Way is one of them. Certificates and keys are PEM; what is empty is not used.
type Way struct {
	Bootstrap   string `json:"bootstrap"`
	Protocol    string `json:"protocol"`
	Authority   string `json:"authority"`
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	Mechanism   string `json:"mechanism"`
	Username    string `json:"username"`
	Password    string `json:"password"`
	Token       string `json:"token"`
	Topic       string `json:"topic"`
}

// way is how the clients connect; nil: in plain text.
var way *Way

const wayTimeout = 20 * time.Second

func (w *Way) encrypted() bool { return strings.HasSuffix(w.Protocol, "SSL") }

func (w *Way) logsIn() bool { return strings.HasPrefix(w.Protocol, "SASL_") }

func (w *Way) tls() (*tls.Config, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(w.Authority)) {
		return nil, errors.New("no authority")
	}
	config := &tls.Config{RootCAs: pool}
	if w.Certificate != "" {
		own, err := tls.X509KeyPair([]byte(w.Certificate), []byte(w.Key))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// tryWays sends a record each way and reads it again: emits the record and {"result": null}, or {"error": classes, "message": text}.
func tryWays(ctx context.Context, maker func(string) (Client, error), ways []Way) error {
	for n := range ways {
		way = &ways[n]
		limited, cancel := context.WithTimeout(ctx, wayTimeout)
		err := tryWay(limited, maker)
		cancel()
		if err != nil {
			emit(map[string]any{"error": classes(err), "message": err.Error()})
		} else {
			emit(map[string]any{"result": nil})
		}
	}
	return nil
}

func tryWay(ctx context.Context, maker func(string) (Client, error)) error {
	client, err := maker(way.Bootstrap)
	if err != nil {
		return err
	}
	if checked, can := client.(interface{ Check(context.Context) error }); can {
		if err := checked.Check(ctx); err != nil {
			return err
		}
	}
	value := "secured"
	offsets, err := client.Produce(ctx, way.Topic, Send{Codec: "none", Acks: "all", Records: []Record{{Value: &value, TimestampMs: time.Now().UnixMilli()}}})
	if err != nil {
		return err
	}
	return client.Consume(ctx, Args{Topic: way.Topic, Partitions: []int32{0}, Count: 1, Offset: &offsets[0]})
}

// classes lists the types in the tree of an error, and the names of Kafka's own errors.
func classes(err error) []string {
	found := []string{fmt.Sprintf("%T", err)}
	switch known := err.(type) {
	case *kerr.Error:
		found = append(found, known.Message)
	case sarama.KError:
		found = append(found, fmt.Sprintf("KError %d", int16(known)))
	}
	if errors.Is(err, sarama.ErrSASLAuthenticationFailed) { // a sentinel that wraps others does not give itself away
		found = append(found, "ErrSASLAuthenticationFailed")
	}
	switch wrapping := err.(type) {
	case sarama.ProducerErrors:
		for _, inner := range wrapping {
			found = append(found, classes(inner.Err)...)
		}
	case interface{ Unwrap() error }:
		if inner := wrapping.Unwrap(); inner != nil {
			found = append(found, classes(inner)...)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range wrapping.Unwrap() {
			found = append(found, classes(inner)...)
		}
	}
	return found
}
