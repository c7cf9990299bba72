import Encoding
import EventLog
import Foundation
import Logging
import StandardWebhooks
import StoreClient

/// What the deliveries to all endpoints share.
struct DeliveryContext: Sendable {
    let record: DeliveryLog
    let clock: StoreClock
    let plan: RetryPlan
    /// Returns numbers from 0 up to but excluding 1.
    let random: @Sendable () -> Double
    let limit: FlightLimit
    let metrics: OutboundMetrics
    let keyFile: WebhookKeyFile?
    /// How many bytes of messages an endpoint may read ahead.
    let aheadBytesMax: @Sendable () -> Int
    /// How many messages an endpoint may keep in memory, without their bodies.
    let heldMax: @Sendable () -> Int
    /// Whether this process leads a stream. Renews the lead.
    let leads: @Sendable (Int32) async throws(ReadError) -> Bool
    let logger: Logger

    /// The keys that sign for an endpoint now.
    func keys(_ endpoint: Endpoint) -> [SigningKey] {
        do throws(WebhookKeyFile.Problem) {
            return try keyFile?.signing(endpoint, at: clock.date()) ?? []
        } catch {
            logger.error("webhook keys not read", metadata: ["error": "\(error)"])
            return []
        }
    }

    /// Says what happened, without URL, secret or body.
    func log(
        _ level: Logger.Level, _ message: Logger.Message, _ endpoint: Endpoint, _ outcome: AttemptOutcome? = nil,
        number: Int64? = nil, reason: Endpoint.Reason? = nil
    ) {
        var metadata: Logger.Metadata = [
            "endpoint.id": "\(endpoint.id)", "stream.app": "\(endpoint.stream.app)",
            "stream.environment": "\(endpoint.stream.environment.rawValue)",
        ]
        if let outcome { metadata["result"] = "\(outcome.class.rawValue)" }
        if let status = outcome?.status { metadata["http.status"] = "\(status)" }
        if let number { metadata["number"] = "\(number)" }
        if let reason { metadata["reason"] = "\(reason.rawValue)" }
        logger.log(level: level, message, metadata: metadata)
    }

    func note(_ error: ReadError, _ id: String) {
        logger.warning("delivery waits for the database", metadata: ["endpoint.id": "\(id)", "error": "\(error)"])
    }
}

extension Instant {
    var foundationDate: Date { Date(timeIntervalSince1970: Double(milliseconds) / 1000) }
}
