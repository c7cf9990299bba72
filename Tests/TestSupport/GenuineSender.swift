import Foundation

/// Posts a version 1 notification at intervals, each over a new connection as the App Store does, and measures the
/// answers.
package struct GenuineSender: Sendable {
    /// The answer to one notification.
    package struct Answer: Sendable {
        /// 0 if there was none; ``problem`` says why.
        package let status: Int
        /// Nil for a complete answer.
        package let problem: String?
        package let took: Duration
        /// See ``ProcessorShare/slowdown()``; the greater one of before and after.
        package fileprivate(set) var slowdown = 1.0
    }

    private let port: Int
    private let patience: Duration
    private let pause: Duration

    /// - Parameters:
    ///   - patience: For how long an answer is awaited.
    ///   - pause: From one notification to the next.
    package init(port: Int, patience: Duration = .seconds(8), every pause: Duration = .seconds(1)) {
        self.port = port
        self.patience = patience
        self.pause = pause
    }

    /// - Parameter first: The number of the first notification. Later ones are numbered consecutively.
    package func run(_ count: Int, first: Int) async throws -> [Answer] {
        var answers: [Answer] = []
        for number in 0..<count {
            let start = ContinuousClock.now
            let slowdown = ProcessorShare.slowdown()
            var answer = try await post(try V1Body(number: first + number).bytes)
            answer.slowdown = max(slowdown, ProcessorShare.slowdown())
            answers.append(answer)
            try await Task.sleep(until: start + pause)
        }
        return answers
    }

    private func post(_ body: [UInt8]) async throws -> Answer {
        let start = ContinuousClock.now
        guard let connection = try? RawConnection(port: port) else {
            return Answer(status: 0, problem: "not connected", took: .now - start)
        }
        let connected = ContinuousClock.now - start
        connection.write(
            "POST /apple/notifications HTTP/1.1\r\nHost: x\r\nContent-Length: \(body.count)\r\n\r\n"
                + String(decoding: body, as: UTF8.self))
        var text = ""
        var problem: String?
        while !text.contains("}"), problem == nil {
            text += connection.read()
            if text.contains("}") { break }
            if connection.hasEnded {
                problem = "closed by the server"
            } else if start + patience < .now {
                problem = "no answer"
            }
            try await Task.sleep(for: .milliseconds(5))
        }
        let status = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        return Answer(
            status: status, problem: problem.map { "\($0); connected after \(connected)" }, took: .now - start)
    }
}
