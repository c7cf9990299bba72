import Encoding

extension StoreWrite {
    /// The canonical JSON, which is the body of the event.
    package var canonicalText: [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }

    /// `{"action":"extend",…,"requestIdentifier":…,"by":…,"reason":…,"answer":{"result":…},"idempotencyKey":…,
    /// "requestDigest":…}` with Apple's names.
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writeMembers(to: &writer)
            writer.member("idempotencyKey", idempotency?.text)
            writer.member("requestDigest", idempotency?.requestDigest)
        }
    }

    /// Without what only recognises a repeated request.
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("action", change.action.rawValue)
        switch change {
        case .extend(let id, let terms):
            writer.member("originalTransactionId", id)
            terms.writeMembers(to: &writer)
        case .extendAll(let productId, let storefronts, let terms):
            writer.member("productId", productId)
            if !storefronts.isEmpty {
                writer.key("storefrontCountryCodes")
                writer.array(storefronts) { $0.value($1) }
            }
            terms.writeMembers(to: &writer)
        case .setAccountToken(let id, let token):
            writer.member("originalTransactionId", id)
            writer.member("appAccountToken", token)
        case .cancel(let subject): subject.writeMembers(to: &writer)
        case .revoke(let subject, let isProrated):
            subject.writeMembers(to: &writer)
            writer.member("refund", isProrated ? "prorated" : "full")
        case .defer(let subject, let days, let etag):
            subject.writeMembers(to: &writer)
            writer.member("deferByDays", days)
            writer.member("etag", etag)
        case .refund(let id, let orderId, let revokes):
            writer.member("originalTransactionId", id)
            writer.member("orderId", orderId)
            writer.member("revoke", revokes)
        case .answerRefund(let subject, let content):
            writer.member("originalTransactionId", subject.originalTransactionId)
            writer.member("transactionId", subject.transactionId)
            writer.key("consumption")
            writer.object { content.writeMembers(to: &$0) }
        }
        writer.member("requestIdentifier", requestIdentifier)
        writer.member("by", by)
        writer.member("reason", reason)
        if let answer {
            writer.key("answer")
            writer.object { answer.writeMembers(to: &$0) }
        }
    }

    /// Reads the JSON that ``write(to:)`` writes.
    package init(json: JSONValue) throws(FactsError) {
        guard let action = json.string("action").flatMap(Action.init(rawValue:)) else {
            throw FactsError(member: "write.action")
        }
        let change: Change
        switch action {
        case .extend:
            change = .extend(
                originalTransactionId: try json.required("originalTransactionId"), try ExtensionTerms(json: json))
        case .extendAll:
            change = .extendAll(
                productId: try json.required("productId"),
                storefronts: json["storefrontCountryCodes"]?.elements.compactMap(\.string) ?? [],
                try ExtensionTerms(json: json))
        case .setAccountToken:
            change = .setAccountToken(
                originalTransactionId: try json.required("originalTransactionId"),
                appAccountToken: try json.required("appAccountToken"))
        case .cancel: change = .cancel(try PlaySubject(json: json))
        case .revoke:
            change = .revoke(try PlaySubject(json: json), isProrated: try json.required("refund") == "prorated")
        case .defer:
            guard let days = json.integer("deferByDays") else { throw FactsError(member: "write.deferByDays") }
            change = .defer(try PlaySubject(json: json), days: days, etag: try json.required("etag"))
        case .refund:
            change = .refund(
                originalTransactionId: try json.required("originalTransactionId"),
                orderId: try json.required("orderId"), revokes: json.bool("revoke") == true)
        case .answerRefund:
            guard let consumption = json["consumption"], let content = try? ConsumptionAnswer.read(consumption) else {
                throw FactsError(member: "write.consumption")
            }
            change = .answerRefund(
                RefundSubject(
                    originalTransactionId: json.string("originalTransactionId"),
                    transactionId: try json.required("transactionId")), content)
        }
        var answer: Answer?
        if let json = json["answer"] { answer = try Answer(json: json) }
        var idempotency: IdempotencyKey?
        if let key = json.string("idempotencyKey") {
            idempotency = IdempotencyKey(key, requestDigest: try json.required("requestDigest"))
        }
        self.init(
            change, requestIdentifier: try json.required("requestIdentifier"), by: try json.required("by"),
            reason: try json.required("reason"), answer: answer, idempotency: idempotency)
    }
}

extension StoreWrite.PlaySubject {
    fileprivate func writeMembers(to writer: inout JSONWriter) {
        writer.member("originalTransactionId", originalTransactionId)
        writer.member("purchaseToken", purchaseToken)
    }

    fileprivate init(json: JSONValue) throws(FactsError) {
        self.init(
            originalTransactionId: try json.required("originalTransactionId"),
            purchaseToken: try json.required("purchaseToken"))
    }
}

extension StoreWrite.ExtensionTerms {
    fileprivate func writeMembers(to writer: inout JSONWriter) {
        writer.member("extendByDays", days)
        writer.member("extendReasonCode", reason.code)
    }

    fileprivate init(json: JSONValue) throws(FactsError) {
        guard let days = json.integer("extendByDays") else { throw FactsError(member: "write.extendByDays") }
        guard let reason = json.integer("extendReasonCode").flatMap(StoreWrite.ExtensionReason.init(code:)) else {
            throw FactsError(member: "write.extendReasonCode")
        }
        self.init(days: days, reason: reason)
    }
}

extension StoreWrite.Answer {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("result", result.rawValue)
        writer.member("errorCode", errorCode)
        writer.member("httpStatus", httpStatus)
        writer.member("problem", problem)
        writer.member("effectiveDate", effectiveDate)
        writer.member("webOrderLineItemId", webOrderLineItemId)
    }

    fileprivate init(json: JSONValue) throws(FactsError) {
        guard let result = json.string("result").flatMap(Result.init(rawValue:)) else {
            throw FactsError(member: "write.answer.result")
        }
        self.init(
            result, errorCode: json["errorCode"]?.int64, httpStatus: json.integer("httpStatus"),
            problem: json.string("problem"), effectiveDate: try json.instant("effectiveDate"),
            webOrderLineItemId: json.string("webOrderLineItemId"))
    }
}
