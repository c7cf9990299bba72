import Foundation

/// The load generator: a number of connections, each with one outstanding request at all times.
struct Wrk {
    let settings: RunSettings
    let requests: RequestFile

    struct Outcome {
        let perSecond: Double
        /// Milliseconds from the first byte sent to the last one received.
        let p50: Double
        let p99: Double
        /// Processor time of the generator per request, in microseconds.
        let clientMicroseconds: Double
    }

    private struct Result: Decodable {
        let requests: Int
        let seconds: Double
        let p50: Double
        let p99: Double
        let notOK: Int
        let broken: Int
        let ranOut: Bool
    }

    /// - Parameters:
    ///   - limit: Repeats this many requests; 0 sends each request once.
    ///   - first: The number of the first request.
    /// - Throws: If an answer was not 200, or the bodies ran out.
    func run(port: Int, limit: Int = 0, from first: Int = 0) throws -> Outcome {
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("send.lua").path
        let before = Self.childSeconds()
        let output = try Tool.run(
            try Tool.find("wrk"),
            [
                "-t1", "-c\(settings.connections)", "-d\(settings.seconds)s", "--timeout", "30s", "-s", script,
                "http://127.0.0.1:\(port)", "--", requests.path, String(limit),
                String(requests.offset(of: first)),
            ])
        guard let line = output.split(separator: "\n").first(where: { $0.hasPrefix("result ") }),
            let result = try? JSONDecoder().decode(Result.self, from: Data(line.dropFirst("result ".count).utf8))
        else { throw BenchError("no result from wrk: \(output.suffix(300))") }
        guard !result.ranOut || limit > 0 else { throw BenchError("the bodies ran out: expected fewer --seconds") }
        guard result.notOK == 0, result.broken == 0, result.requests > 0 else {
            throw BenchError(
                "of \(result.requests) requests \(result.notOK) were not answered 200, and \(result.broken) failed")
        }
        return Outcome(
            perSecond: Double(result.requests) / result.seconds, p50: result.p50, p99: result.p99,
            clientMicroseconds: (Self.childSeconds() - before) * 1e6 / Double(result.requests))
    }

    /// Processor time of the child processes that have ended, in seconds.
    static func childSeconds() -> Double {
        var usage = rusage()
        getrusage(RUSAGE_CHILDREN.rawValue, &usage)
        func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
        return seconds(usage.ru_utime) + seconds(usage.ru_stime)
    }
}
