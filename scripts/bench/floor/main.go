// floor is no broker: of a Produce it does what nobody can leave out. It receives the request, takes the CRC-32C of the batch,
// writes it behind the last one in its partition's file, and answers. What it needs is what the kernel needs, so
// scripts/bench/compare.py shows it beside the brokers. Beyond Produce v7 it knows what the load generator asks before and after.
//
//	floor PORT DIRECTORY
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
)

const (
	produce      = 0
	listOffsets  = 2
	apiVersions  = 18
	createTopics = 19
	deleteTopics = 20
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	big        = binary.BigEndian
	errCRC     = errors.New("a batch whose CRC does not fit")
)

// partition is a file that grows at its end.
type partition struct {
	sync.Mutex
	file *os.File
	end  int64
}

// logs are the partitions of every topic, by their number.
type logs struct {
	sync.Mutex
	directory string
	topics    map[string]map[uint32]*partition
}

func (l *logs) open(topic string, index uint32) (*partition, error) {
	l.Lock()
	defer l.Unlock()
	if found := l.topics[topic][index]; found != nil {
		return found, nil
	}
	file, err := os.Create(filepath.Join(l.directory, fmt.Sprintf("%s-%d.log", topic, index)))
	if err != nil {
		return nil, err
	}
	if l.topics[topic] == nil {
		l.topics[topic] = map[uint32]*partition{}
	}
	l.topics[topic][index] = &partition{file: file}
	return l.topics[topic][index], nil
}

func (l *logs) remove(topic string) error {
	l.Lock()
	defer l.Unlock()
	var failed error
	for _, found := range l.topics[topic] {
		failed = errors.Join(failed, os.Remove(found.file.Name()), found.file.Close())
	}
	delete(l.topics, topic)
	return failed
}

// reader goes over the fields of a request.
type reader struct{ rest []byte }

func (r *reader) int32() uint32 {
	value := big.Uint32(r.rest)
	r.rest = r.rest[4:]
	return value
}

func (r *reader) string() string {
	size := int16(big.Uint16(r.rest))
	r.rest = r.rest[2:]
	if size < 0 {
		return ""
	}
	value := string(r.rest[:size])
	r.rest = r.rest[size:]
	return value
}

func appendString(out []byte, value string) []byte {
	return append(big.AppendUint16(out, uint16(len(value))), value...)
}

// answer to a request without its header, as kload sends it: one topic, and of Produce one partition with one batch.
func (l *logs) answer(key uint16, request *reader, out []byte) ([]byte, error) {
	switch key {
	case produce:
		request.string() // transactional id
		request.rest = request.rest[2+4+4:]
		topic := request.string()
		request.rest = request.rest[4:]
		index := request.int32()
		batch := request.rest[4:]
		if crc32.Checksum(batch[21:], castagnoli) != big.Uint32(batch[17:]) {
			return nil, errCRC
		}
		to, err := l.open(topic, index)
		if err != nil {
			return nil, err
		}
		to.Lock()
		defer to.Unlock()
		if _, err = to.file.WriteAt(batch, to.end); err != nil {
			return nil, err
		}
		to.end += int64(len(batch))
		out = big.AppendUint32(appendString(big.AppendUint32(out, 1), topic), 1)
		out = append(big.AppendUint32(out, index), make([]byte, 2+8)...)
		return append(big.AppendUint64(out, ^uint64(0)), make([]byte, 8+4)...), nil
	case apiVersions:
		return append(out, make([]byte, 2+4)...), nil
	case createTopics:
		request.int32()
		out = appendString(append(out, 0, 0, 0, 0, 0, 0, 0, 1), request.string())
		return append(out, 0, 0, 0xff, 0xff), nil
	case listOffsets:
		request.rest = request.rest[8:]
		out = appendString(big.AppendUint32(out, 1), request.string())
		count := request.int32()
		return append(big.AppendUint32(out, count), make([]byte, 22*count)...), nil
	case deleteTopics:
		request.int32()
		topic := request.string()
		return append(appendString(append(out, 0, 0, 0, 0, 0, 0, 0, 1), topic), 0, 0), l.remove(topic)
	}
	return nil, fmt.Errorf("API key %d is not known here", key)
}

func (l *logs) serve(connection net.Conn) error {
	defer connection.Close()
	var frame []byte
	size := make([]byte, 4)
	for {
		if _, err := io.ReadFull(connection, size); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		need := int(big.Uint32(size))
		if cap(frame) < need {
			frame = make([]byte, need)
		}
		frame = frame[:need]
		if _, err := io.ReadFull(connection, frame); err != nil {
			return err
		}
		request := &reader{frame[8:]}
		request.string() // client id
		out, err := l.answer(big.Uint16(frame), request, append([]byte{0, 0, 0, 0}, frame[4:8]...))
		if err != nil {
			return err
		}
		big.PutUint32(out, uint32(len(out)-4))
		if _, err := connection.Write(out); err != nil {
			return err
		}
	}
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	all := &logs{directory: os.Args[2], topics: map[string]map[uint32]*partition{}}
	for {
		connection, err := listener.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		go func() {
			if err := all.serve(connection); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
	}
}
