import EventLog
import Foundation
import NIOCore
import Outbound
import Testing

@testable import HTTPServer
@testable import Readers
@testable import StoreClient

@Suite("The documented limits match the code")
struct LimitsTableTests {
    private typealias HTTP = HTTPServer.Limits

    private static let limits: [String: String] = [
        "connections of the public listener": "\(HTTP.publicConnectionsMax)",
        "connections of the private listener": "\(HTTP.privateConnectionsMax)",
        "connections of one address, public": "\(HTTP.publicConnectionsPerAddress)",
        "connections of one address, private": "\(HTTP.privateConnectionsPerAddress)",
        "wait for a request, or for its answer to be read": seconds(HTTP.idleTimeout),
        "wait for a body": seconds(HTTP.bodyWaitMax),
        "wait for a body while the server ends": seconds(HTTP.bodyWaitAtEndMax),
        "rest of a refused request": "\(seconds(HTTP.lingerMax)), \(bytes(HTTP.lingerBytesMax))",
        "body": bytes(HTTP.bodyBytesMax),
        "body with a receipt": bytes(HTTP.receiptBodyBytesMax),
        "body with signed transactions": bytes(HTTP.transactionsBodyBytesMax),
        "body with a purchase of Google Play": bytes(HTTP.purchaseBodyBytesMax),
        "signed transactions of one request": "\(StoreClient.Limits.transactionsMax)",
        "bodies above \(bytes(HTTP.bodyBytesFree)), together": bytes(HTTP.bodiesBytesMax),
        "notifications that wait for their commit":
            "\(EventLog.Limits.queueEventsMax), \(bytes(EventLog.Limits.queueBytesMax))",
        "wait for a commit": seconds(EventLog.Limits.queueWaitMax + EventLog.Limits.commitWaitMax),
        "notification of a local environment": bytes(HTTP.localBodyBytesMax),
        "notifications of a local environment": "\(HTTP.localEventsMax)",
        "rate of a local environment": "\(HTTP.localEventsPerSecond)/s, bursts of \(HTTP.localBurstEventsMax)",
        "signatures of offers of an app": "\(HTTP.offerSignatureBurstMax), then \(HTTP.offerSignaturesPerSecond)/s",
        "order numbers of a store": "\(HTTP.orderQuestionBurstMax), then \(HTTP.orderQuestionsPerSecond)/s",
        "comparison of access in the console":
            "\(bytes(HTTP.consoleComparisonBytesMax)), \(seconds(HTTP.consoleComparisonWaitMax)), "
            + "\(HTTP.consoleDifferencesMax) differences listed, \(HTTP.consoleComparisonsMax) at once",
        "`Idempotency-Key` of a [change at a store](OperatorWrites.md#by-http)":
            "\(HTTP.idempotencyKeyBytesMax) characters",
        "[seats](Seats.md) given of a subscription": "\(EventLog.Limits.seatClaimsMax)",
        "purchases that wait for Google's first answer": "\(StoreClient.Limits.unansweredPurchasesMax) of an app",
        "refused receipts, and purchases that Google does not know":
            "\(Int(StoreClient.Limits.refusedHandInsKept / .seconds(86_400))) days",
        "rows of an import": "\(HTTP.importRowsMax), \(bytes(HTTP.importBodyBytesMax))",
        "questions to stores of an import": seconds(HTTP.importWaitMax),
        "hand-ins of a customer":
            "\(HTTP.handInBurstMax), then \(HTTP.handInsPerSecond)/s; a request counts as one for each "
            + "\(HTTP.handInTexts) signed texts",
        "purchases of a customer that a hand-in moves to another":
            "\(HTTP.movedPurchaseBurstMax), then \(HTTP.movedPurchasesPerSecond)/s; a move counts for both with all that the "
            + "former owner has",
        "requests of an app's user": "\(HTTP.userRequestBurstMax), then \(HTTP.userRequestsPerSecond)/s",
        "requests of apps from one address": "\(HTTP.appRequestBurstMax), then \(HTTP.appRequestsPerSecond)/s",
        "requests of apps at a time, public":
            "\(HTTP.appRequestsAtOnceMax), 1/\(HTTP.appPlacesDivisor) of an address's connections, "
            + "\(HTTP.userRequestsAtOnceMax) of a user",
        "assertion about an app's user": "\(bytes(HTTP.assertionBytesMax)), \(seconds(HTTP.assertionMax))",
        "validity of a signed answer":
            "\(seconds(HTTP.signedAnswerMax)), \(seconds(HTTP.signedNothingMax)) without entitlements",
        "push without authentication": bytes(HTTP.openPushBytesMax),
        "rate of pushes without authentication":
            "\(bytes(HTTP.openPushBytesPerSecond))/s, bursts of \(bytes(HTTP.openPushBurstBytesMax))",
        "log lines of refused requests": "\(HTTP.refusalLinesPerSecond)/s for each reason",
        "health check": seconds(HTTP.healthWaitMax),
        "customers of one request": "\(HTTP.customersMax)",
        "ids of a page of a customer": "\(HTTP.customerIdsMax)",
        "ids of each kind in a change": "\(Readers.Limits.changeIdsMax)",
        "entries of a customer's history": "\(HTTP.historyMax)",
        "issues of one request": "\(HTTP.issuesMax)",
        "events of a page": "\(EventLog.Limits.pageEventsMax)",
        "changes of a page": "\(HTTP.changesMax), \(bytes(HTTP.changesBytesMax))",
        "wait for changes": seconds(HTTP.changeWaitMax),
        "stream of changes": seconds(HTTP.streamMax),
        "endpoints": "\(Outbound.Limits.endpointsMax)",
        "attempts in flight":
            "\(Outbound.Limits.endpointFlightsMax) of an endpoint, \(Outbound.Limits.flightsMax) in all, and "
            + "\(Outbound.Limits.slowFlightsMax) to endpoints that need longer than "
            + seconds(Outbound.Limits.quickTimeMax),
        "messages that wait for endpoints":
            "\(Outbound.Limits.waitingMax) of one, \(Outbound.Limits.heldMax) of all in equal shares",
        "subscriptions of an endpoint that wait": "\(Outbound.Limits.waitingLinesMax)",
    ]

    private static func seconds(_ duration: Duration) -> String { "\(duration.components.seconds) s" }

    private static func seconds(_ amount: TimeAmount) -> String { "\(amount.nanoseconds / 1_000_000_000) s" }

    private static func bytes(_ count: Int) -> String {
        count >= 1 << 20 ? "\(count >> 20) MiB" : "\(count >> 10) KiB"
    }

    @Test("the table of limits in the article equals the limits of the code")
    func table() throws {
        let text = try DocumentationArticle("Operating").text
        let start = try #require(text.range(of: "\n## Limits\n"))
        let section = text[start.upperBound...].components(separatedBy: "\n## ")[0]
        var found: [String: String] = [:]
        for line in section.split(separator: "\n") where line.hasPrefix("| ") {
            let columns = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            guard columns.count == 4, columns[0] != "limit" else { continue }
            found[columns[0]] = columns[1]
        }

        #expect(found == Self.limits)
    }
}
